"""What people do with litellm's ollama_chat/ and ollama/, against a server whose address is the first argument."""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm  # noqa: E402

base, alias = sys.argv[1:3]
model = f"ollama_chat/{alias}"
hello = [{"role": "user", "content": "Hello"}]
ask = {"api_base": base, "max_tokens": 8, "temperature": 0}

whole = litellm.completion(model=model, messages=hello, **ask)
text = whole.choices[0].message.content
assert whole.usage.completion_tokens == 8 and whole.usage.prompt_tokens > 0 and whole.choices[0].finish_reason == "length", whole
parts = list(litellm.completion(model=model, messages=hello, stream=True, **ask))
assert "".join(part.choices[0].delta.content or "" for part in parts) == text, parts
assert parts[-1].choices[0].finish_reason == "length", parts[-1]

schema = {"type": "object", "properties": {"wet": {"type": "boolean"}}, "required": ["wet"]}
form = {"type": "json_schema", "json_schema": {"name": "paint", "schema": schema}}
paint = litellm.completion(model=model, messages=hello, response_format=form, api_base=base, max_tokens=100)
assert isinstance(json.loads(paint.choices[0].message.content)["wet"], bool), paint

tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
call = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
history = hello + [
    {"role": "assistant", "content": None, "tool_calls": [call]},
    {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
]
answered = litellm.completion(model=model, messages=history, tools=[tool], **ask)
assert answered.choices[0].message.role == "assistant", answered
made = litellm.completion(model=f"ollama/{alias}", messages=hello, **ask)
assert made.usage.completion_tokens == 8, made
vectors = litellm.embedding(model=f"ollama/{alias}", input=["a", "b"], api_base=base).data
assert len(vectors) == 2 and len(vectors[0]["embedding"]) > 0
try:
    litellm.completion(model=model, messages=hello, mirostat=3, **ask)
    raise AssertionError("a sampler that is not there was taken")
except litellm.exceptions.APIError as error:
    assert "mirostat" in str(error), error
except litellm.exceptions.BadRequestError as error:
    assert "mirostat" in str(error), error
print(f"litellm: ok; {json.dumps(text)}")
