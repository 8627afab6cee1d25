"""The openai and ollama packages against a server of several models, whose address is the first argument and which has
tiny-llama and tiny-qwen3, one at a time: both answer under their names, and nothing is mixed."""

import sys
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

import openai
from ollama import Client

base = sys.argv[1]
names = ["tiny-llama", "tiny-qwen3"]
client = openai.OpenAI(base_url=f"{base}/v1", api_key="key", max_retries=0)
ollama = Client(host=base)

listed = {model.id: model for model in client.models.list()}
assert set(listed) == {*names, "broken"}, listed
assert {model.status["value"] for model in listed.values()} == {"unloaded"}, listed


def said(name):
    answer = client.completions.create(model=name, prompt="Hello", max_tokens=12, temperature=0)
    assert answer.model == name, answer
    return answer.choices[0].text


def streamed(name):
    parts = client.completions.create(model=name, prompt="Hello", max_tokens=12, temperature=0, stream=True)
    return "".join(part.choices[0].text for part in parts)


def generated(name):
    answer = ollama.generate(model=name, prompt="Hello", raw=True, options={"num_predict": 12, "temperature": 0})
    return answer.response


alone = {name: said(name) for name in names}
assert alone[names[0]] != alone[names[1]], alone
calls = [(call, name) for _ in range(4) for call in (said, streamed, generated) for name in names]
with ThreadPoolExecutor(8) as threads:
    for (call, name), text in zip(calls, threads.map(lambda one: one[0](one[1]), calls)):
        assert text == alone[name], (call.__name__, name, text, alone[name])

for name, kind in (("nobody", openai.NotFoundError), ("../tiny-llama", openai.NotFoundError), ("broken", openai.InternalServerError)):
    try:
        said(name)
    except kind as error:
        assert name in str(error), error
    else:
        raise AssertionError(name)

loaded = ollama.ps().models
assert len(loaded) == 1 and loaded[0].name.removesuffix(":latest") in names, loaded
# Each is let go, as either may have answered last; the one that is not loaded is not loaded for it.
for name in names:
    assert ollama.generate(model=name, keep_alive=0).done_reason == "unload"
end = monotonic() + 60
while loaded := ollama.ps().models:
    assert monotonic() < end, loaded
    sleep(0.05)
assert said("tiny-llama") == alone["tiny-llama"]
print("several models: ok")
