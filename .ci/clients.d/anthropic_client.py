"""What people do with the anthropic package, against a server whose address is the first argument."""

import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="key", max_retries=0)
asked = {
    "model": "any",
    "max_tokens": 8,
    "messages": [{"role": "user", "content": "Hello"}],
    # The package has no word for it any more.
    "extra_body": {"temperature": 0},
}

whole = client.messages.create(system="Be brief", **asked)
text = whole.content[0].text
assert whole.stop_reason == "max_tokens" and whole.usage.output_tokens == 8, whole

with client.messages.stream(system="Be brief", **asked) as stream:
    assert "".join(stream.text_stream) == text
    final = stream.get_final_message()
assert final.content[0].text == text and final.stop_reason == "max_tokens", final

tools = [{"name": "now", "description": "The time", "input_schema": {"type": "object", "properties": {}}}]
history = asked["messages"] + [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "now", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "noon"}]},
]
client.messages.create(**{**asked, "messages": history}, tools=tools)

assert client.messages.count_tokens(model="any", messages=asked["messages"]).input_tokens > 0
try:
    client.messages.create(**{**asked, "messages": []})
    raise AssertionError("an empty conversation was taken")
except anthropic.BadRequestError as error:
    assert error.body["error"]["type"] == "invalid_request_error", error
print(f"anthropic {anthropic.__version__} (Python): ok")
