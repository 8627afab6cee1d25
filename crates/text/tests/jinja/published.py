"""Writes what Jinja2 makes of published chat templates, for the test `published_templates_render_as_in_jinja2`.

    published.py FOLDER OUTPUT.json
    KERNLOOM_TEMPLATE_CASES=OUTPUT.json cargo test -p kernloom-text published

FOLDER has files NAME.jinja; they are no part of this repository. A case that fails in Jinja2 has null for its output.
"""

import datetime
import itertools
import json
import pathlib
import sys

from jinja2 import nodes
from jinja2.ext import Extension
from make_cases import environment


class Generation(Extension):
    """`{% generation %}`, in which the words of the assistant stand."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("said"), [], [], body).set_lineno(line)

    def said(self, caller):
        return caller()


environment.add_extension(Generation)
environment.globals["strftime_now"] = lambda form: datetime.datetime(1970, 1, 1).strftime(form)

PROPERTIES = {
    "city": {"type": "string", "additionalProperties": False, "description": "The \"city\" <name>"},
    "days": {"type": "integer", "default": 3, "additionalProperties": False},
    "unit": {"type": "string", "enum": ["C", "F"], "additionalProperties": False},
    "where": {"type": "object", "properties": {"lat": {"type": "number", "additionalProperties": False}, "tags": {"type": "array", "items": {"type": "string"}, "additionalProperties": False}}, "additionalProperties": False},
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Wetter für <Ort>", "parameters": {"type": "object", "properties": PROPERTIES, "required": ["city"]}}},
    {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}},
]
ARGUMENTS = {"city": "Köln \"Mitte\"", "days": 2, "where": {"lat": 1.5, "tags": ["a", None, True]}}


def call(arguments, name="weather", id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def result(content, id="call00001", name="weather"):
    return {"role": "tool", "content": content, "tool_call_id": id, "name": name}


def chats(arguments):
    hi, system = say("user", "Hi <there>\n"), say("system", "Be brief.")
    calls = say("assistant", "Let me see.", tool_calls=[call(arguments(ARGUMENTS))])
    thought = {"reasoning_content": "hm\nhm", "thinking": "hm\nhm", "reasoning": "hm\nhm"}
    return {
        "one": [hi],
        "system": [system, hi],
        "developer": [say("developer", "Be brief."), hi],
        "turns": [system, hi, say("assistant", "Hello"), say("user", "Again")],
        "called": [system, hi, calls, result('{"t": 20}')],
        "answered": [hi, calls, result("rain"), say("assistant", "It rains."), say("user", "And now?")],
        "two calls": [
            hi,
            say("assistant", "", tool_calls=[call(arguments(ARGUMENTS)), call(arguments({}), "now", "call00002")], **thought),
            result("20"), result("noon", "call00002", "now"),
        ],
        "null content": [hi, say("assistant", None, tool_calls=[call(arguments({"city": "Bonn"}))]), result("20")],
        "thought": [hi, say("assistant", "Hello", **thought), say("user", "Again")],
        "thought in tags": [hi, say("assistant", "<think>\nhm\n</think>\n\nHello"), say("user", "Again")],
        "thought last": [hi, say("assistant", "Hello", **thought)],
        "parts": [say("system", [{"type": "text", "text": "Be"}]), say("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])],
        "image": [say("user", [{"type": "text", "text": "What?"}, {"type": "image", "image": "x.png"}, {"type": "image_url", "image_url": {"url": "x.png"}}])],
        "empty": [],
        "strange role": [say("narrator", "Once"), hi],
        "twice": [hi, hi],
    }


def contexts():
    forms = {"object": lambda value: value, "text": json.dumps}
    for form, arguments in forms.items():
        for name, messages in chats(arguments).items():
            if form == "text" and "tool_calls" not in json.dumps(messages):
                continue
            for tools, thinking, prompt in itertools.product([None, TOOLS], [None, True, False], [True, False]):
                context = {"messages": messages, "tools": tools, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}
                context |= {"functions": json.dumps(TOOLS), "datetime": "Jan 01 1970"}
                if thinking is not None:
                    context |= {"enable_thinking": thinking, "thinking": thinking, "reasoning_effort": "high" if thinking else "none"}
                yield f"{name}, arguments as {form}, tools {tools is not None}, thinking {thinking}, prompt {prompt}", context


def rendered(template, context):
    try:
        return template.render(**context)
    except Exception:
        return None


templates, cases = {}, []
contexts = list(contexts())
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
    templates[path.stem] = source = path.read_text()
    template = environment.from_string(source)
    outputs = [rendered(template, context) for _, context in contexts]
    cases.append({"template": path.stem, "outputs": outputs})
    print(f"{path.stem}: {sum(output is not None for output in outputs)} of {len(outputs)} render")
with open(sys.argv[2], "w") as file:
    json.dump({"templates": templates, "contexts": contexts, "cases": cases}, file, ensure_ascii=False)
