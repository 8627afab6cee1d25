"""What people do with the openai package, against a server whose address is the first argument."""

import json
import sys

import openai
from openai import OpenAI
from pydantic import BaseModel

base = sys.argv[1]
client = OpenAI(base_url=f"{base}/v1", api_key="key", max_retries=0)
hello = [{"role": "user", "content": "Hello"}]

model = client.models.list().data[0].id
assert client.models.retrieve(model).id == model

whole = client.chat.completions.create(model=model, messages=hello, max_tokens=8, temperature=0)
text = whole.choices[0].message.content
assert whole.choices[0].finish_reason == "length" and whole.usage.completion_tokens == 8, whole

pieces, usage = [], None
for chunk in client.chat.completions.create(
    model=model, messages=hello, max_tokens=8, temperature=0, stream=True, stream_options={"include_usage": True}
):
    usage = chunk.usage or usage
    pieces += [choice.delta.content or "" for choice in chunk.choices]
assert "".join(pieces) == text, (pieces, text)
assert usage.total_tokens == usage.prompt_tokens + 8 and usage.prompt_tokens_details.cached_tokens > 0, usage

# Leaving in the middle.
stream = client.chat.completions.create(model=model, messages=hello, stream=True, extra_body={"ignore_eos": True})
next(iter(stream))
stream.close()


class Paint(BaseModel):
    """A small schema."""

    colour: str
    wet: bool


parsed = client.beta.chat.completions.parse if hasattr(client.beta.chat, "completions") else client.chat.completions.parse
paint = parsed(
    model=model,
    messages=hello,
    response_format={
        "type": "json_schema",
        "json_schema": {
            "name": "paint",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"colour": {"enum": ["red", "blue"]}, "wet": {"type": "boolean"}},
                "required": ["colour", "wet"],
                "additionalProperties": False,
            },
        },
    },
    max_tokens=200,
)
Paint.model_validate_json(paint.choices[0].message.content)

tools = [{"type": "function", "function": {"name": "now", "description": None, "parameters": {"type": "object", "properties": {}}}}]
with client.chat.completions.stream(model=model, messages=hello, tools=tools, max_tokens=8) as events:
    kinds = [event.type for event in events]
assert "chunk" in kinds, kinds
history = hello + [
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "now", "arguments": "{"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "noon"},
]
client.chat.completions.create(model=model, messages=history, tools=tools, max_tokens=2)

logprobs = client.chat.completions.create(model=model, messages=hello, max_tokens=3, temperature=0, logprobs=True, top_logprobs=2)
assert len(logprobs.choices[0].logprobs.content) == 3

several = client.completions.create(model=model, prompt=["a", "b"], max_tokens=3, n=2, seed=1)
assert len(several.choices) == 4 and [choice.index for choice in several.choices] == [0, 1, 2, 3]

response = client.responses.create(model=model, input="Hello", max_output_tokens=8, temperature=0)
assert response.output_text and response.status == "incomplete", response
events = list(client.responses.create(model=model, input="Hello", max_output_tokens=8, temperature=0, stream=True))
assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == response.output_text
assert events[-1].response.output_text == response.output_text

try:
    client.chat.completions.create(model=model, messages=[])
    raise AssertionError("an empty conversation was taken")
except openai.BadRequestError as error:
    assert error.body["type"] == "invalid_request_error" and "messages" in error.message, error
try:
    client.completions.create(model=model, prompt="word " * 5000, stream=True)
    raise AssertionError("a prompt longer than the context was taken")
except openai.BadRequestError as error:
    assert error.code == "context_length_exceeded", error
try:
    client.models.retrieve("nothing")
    raise AssertionError("a model that is not there was found")
except openai.NotFoundError:
    pass
print(f"openai {openai.__version__} (Python): ok; {json.dumps(text)}")
