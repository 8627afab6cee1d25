"""What people do with the ollama package, against a server whose address is the first argument and which lets models of
a hub on this machine come and go."""

import json
import sys

import ollama
from ollama import Client
from pydantic import BaseModel

base, alias = sys.argv[1:3]
client = Client(host=base)
hello = [{"role": "user", "content": "Hello"}]
short = {"num_predict": 8, "temperature": 0}

listed = client.list().models
assert [model.model for model in listed] == [f"{alias}:latest"] and listed[0].details.format == "gguf", listed
assert client.ps().models[0].context_length == 2048
shown = client.show(alias)
assert shown.modelinfo["general.architecture"] == "llama" and "completion" in shown.capabilities, shown

whole = client.chat(model=alias, messages=hello, options=short)
text = whole.message.content
assert whole.done_reason == "length" and whole.eval_count == 8 and whole.prompt_eval_count > 0, whole
parts = list(client.chat(model=alias, messages=hello, options=short, stream=True))
assert "".join(part.message.content for part in parts) == text and parts[-1].done and len(parts) > 2, parts
assert parts[-1].total_duration >= parts[-1].eval_duration > 0, parts[-1]

# Leaving in the middle.
stream = client.chat(model=alias, messages=hello, options={"num_predict": -1}, stream=True)
next(iter(stream))
stream.close()


class Paint(BaseModel):
    """A small schema."""

    colour: str
    wet: bool


schema = Paint.model_json_schema()
schema["properties"]["colour"]["enum"] = ["red", "blue"]
paint = client.chat(model=alias, messages=hello, format=schema, options={"num_predict": 200})
Paint.model_validate_json(paint.message.content)
json.loads(client.generate(model=alias, prompt="Hello", format=schema, options={"num_predict": 200}).response)


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
      a: the first
      b: the second
    """
    return a + b


asked = client.chat(model=alias, messages=hello, tools=[add], options=short)
history = hello + [
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add", "arguments": {"a": 2, "b": 3}}}]},
    {"role": "tool", "tool_name": "add", "content": "5"},
]
answered = client.chat(model=alias, messages=history, tools=[add], options=short)
assert asked.message.role == answered.message.role == "assistant" and answered.prompt_eval_count > asked.prompt_eval_count
assert client.chat(model=alias, messages=hello, think=False, options=short).message.thinking is None

made = client.generate(model=alias, prompt="Hello", system="Be short.", options=short)
parts = list(client.generate(model=alias, prompt="Hello", system="Be short.", options=short, stream=True))
assert "".join(part.response for part in parts) == made.response and list(parts[-1].context) == list(made.context)
on = client.generate(model=alias, prompt="And?", context=made.context, options=short)
assert list(on.context)[: len(made.context)] == list(made.context)
raw = client.generate(model=alias, prompt="Hello", raw=True, options=short)
assert raw.context is None and raw.eval_count == 8
scored = client.chat(model=alias, messages=hello, options=short, logprobs=True, top_logprobs=2)
assert len(scored.logprobs) == 8 and len(scored.logprobs[0].top_logprobs) == 2
assert client.generate(model=alias).done_reason == "load"
assert client.chat(model=alias, messages=[], keep_alive=0).done_reason == "unload"

vectors = client.embed(model=alias, input=["a", "b"]).embeddings
assert len(vectors) == 2 and abs(sum(x * x for x in vectors[0]) - 1) < 1e-4
one = client.embeddings(model=alias, prompt="a").embedding
assert max(abs(a - b) for a, b in zip(one, vectors[0], strict=True)) < 1e-2


def refused(status, word, call):
    """A call that must fail with this status and say this word."""
    try:
        call()
    except ollama.ResponseError as error:
        assert error.status_code == status and word in error.error, error
    else:
        raise AssertionError(f"{word} was taken")


refused(400, "image", lambda: client.chat(model=alias, messages=[{"role": "user", "content": "x", "images": [b"x"]}]))
refused(400, "suffix", lambda: client.generate(model=alias, prompt="a", suffix="b"))
refused(400, "tfs_z", lambda: client.generate(model=alias, prompt="a", options={"tfs_z": 0.5}))
refused(400, "context", lambda: list(client.generate(model=alias, prompt="word " * 5000, stream=True)))
refused(501, "copied", lambda: client.copy("a", "b"))

statuses = [part.status for part in client.pull("user/tiny-GGUF:Q4_0", stream=True)]
assert statuses[0] == "pulling manifest" and statuses[-1] == "success", statuses
assert client.pull("user/tiny-GGUF:Q4_0").status == "success"
assert [model.model for model in client.list().models][1:] == ["user/tiny-GGUF:Q4_0"]
refused(404, "no repository", lambda: client.pull("user/none"))
refused(400, "hub only", lambda: client.pull("https://example.com/m.gguf"))
assert client.delete("user/tiny-GGUF:Q4_0").status == "success"
refused(404, "not found", lambda: client.delete("user/tiny-GGUF:Q4_0"))
print(f"ollama (Python): ok; {json.dumps(text)}")
