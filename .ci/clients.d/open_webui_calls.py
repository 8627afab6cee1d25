"""The requests that Open WebUI makes of an Ollama server, and what it does with the answers, as its router for Ollama has
them (backend/open_webui/routers/ollama.py). The address is the first argument."""

import json
import re
import sys
import urllib.error
import urllib.request
from datetime import datetime

base, alias = sys.argv[1:3]


def ask(method, path, body=None):
    """The status, the type and the text of a response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.headers.get_content_type(), response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get_content_type(), error.read().decode()


def read(method, path, body=None):
    """An object; only what says that it is JSON is read as such."""
    status, kind, text = ask(method, path, body)
    assert status == 200 and kind == "application/json", (path, status, kind, text)
    return json.loads(text)


# It is there, and how old it is.
version = read("GET", "/api/version")["version"]
assert len(tuple(map(int, re.sub(r"^v|-.*", "", version).split(".")))) == 3, version
models = {model["model"]: model for model in read("GET", "/api/tags")["models"]}
for loaded in read("GET", "/api/ps")["models"]:
    models[loaded["name"]]["expires_at"] = int(datetime.fromisoformat(loaded["expires_at"].replace("Z", "+00:00")).timestamp())
# A name is completed before it is looked for.
name = f"{alias}:latest"
assert models[name]["expires_at"] > 0 and models[name]["size"] > 0, models
assert read("POST", "/api/show", {"name": name, "model": name})["details"]["family"] == "llama"

# A chat, whose lines are passed on as they are.
payload = {
    "model": name,
    "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello"}],
    "options": {"temperature": 0.5, "num_predict": 8, "num_ctx": 2048, "repeat_penalty": 1.1, "seed": 1, "stop": ["x"]},
    "stream": True,
    "keep_alive": "5m",
    "think": False,
}
status, kind, text = ask("POST", "/api/chat", payload)
lines = [json.loads(line) for line in text.splitlines()]
assert (status, kind) == (200, "application/x-ndjson") and lines[-1]["done"], text
assert all(part["message"]["role"] == "assistant" for part in lines), lines
for count in ["eval_count", "prompt_eval_count", "eval_duration", "prompt_eval_duration", "total_duration", "load_duration"]:
    assert isinstance(lines[-1][count], int), lines[-1]
# A title, as a task of its own.
title = read("POST", "/api/chat", {**payload, "stream": False, "options": {"num_predict": 4}})
assert title["message"]["content"] and title["done_reason"] in ("stop", "length"), title
assert read("POST", "/api/generate", {"model": name, "prompt": "Hello", "stream": False, "options": {"num_predict": 4}})["response"]
assert len(read("POST", "/api/embed", {"model": name, "input": ["a", "b"], "truncate": True})["embeddings"]) == 2
assert read("POST", "/api/embeddings", {"model": name, "prompt": "a"})["embedding"]
# Unload.
assert read("POST", "/api/generate", {"model": name, "keep_alive": 0, "prompt": ""})["done_reason"] == "unload"

# Models come and go.
other = "user/tiny-GGUF:Q4_0"
status, _, text = ask("POST", "/api/pull", {"name": other, "model": other, "insecure": True})
lines = [json.loads(line) for line in text.splitlines()]
assert status == 200 and lines[-1] == {"status": "success"} and any("digest" in line for line in lines), text
assert other in {model["model"] for model in read("GET", "/api/tags")["models"]}
assert ask("DELETE", "/api/delete", {"name": other, "model": other})[0] == 200
for method, path, body in [
    ("POST", "/api/pull", {"model": "no/such", "insecure": True}),
    ("POST", "/api/create", {"model": "x"}),
    ("POST", "/api/copy", {"source": "a", "destination": "b"}),
    ("DELETE", "/api/delete", {"model": other}),
    ("POST", "/api/chat", {**payload, "messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}),
]:
    status, _, text = ask(method, path, body)
    assert status >= 400 and isinstance(json.loads(text)["error"], str), (path, status, text)
print("Open WebUI's calls: ok")
