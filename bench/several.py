"""Several models behind one server, under load: `kernloom serve --models DIR` runs, and this asks it.

Every client asks any of the models for any of some prompts, whole or streamed, and some leave in the middle. What a model says
to a prompt is first asked alone; whatever comes later under its name has to be the same text. Beside them the server is watched:
by their plans models never take more than there was, and there are never more than may be.

    several.py http://127.0.0.1:8080 --models tiny-llama tiny-qwen3 --clients 32 --seconds 60 [--at-a-time 2]

The server should be started with --metrics, and with --batch-invariant, as ties are frequent with random weights."""

import argparse
import json
import random
import re
import threading
import time
import urllib.request

PROMPTS = ["Hello", "Once upon a time", "def add(a, b):", "The capital of France is", "1 2 3 4 5 6 7 8 " * 12]


def ask(base, model, prompt, tokens, stream=False, leaves=False):
    """The text that a model says, or None for who leaves."""
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": stream, "ignore_eos": True}
    request = urllib.request.Request(f"{base}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as response:
        if not stream:
            answer = json.load(response)
            assert answer["model"] == model, answer
            return answer["choices"][0]["text"]
        text = ""
        for line in response:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            assert "error" not in event and event["model"] == model, event
            text += "".join(choice["text"] for choice in event["choices"])
            if leaves and text:
                return None
        return text


def taken(metrics):
    """Bytes that models take by their plans, those of mapped files too, and the most that any of them found."""
    parts = re.findall(r"^kernloom_memory_bytes\{.*\} (\d+)$", metrics, re.M)
    room = re.findall(r"^kernloom_memory_available_bytes\{.*\} (\d+)$", metrics, re.M)
    return sum(map(int, parts)), max(map(int, room), default=None)


def main():
    """Asks until the time is over, and says what came."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--at-a-time", type=int, default=1 << 30, help="models that may be loaded")
    args = parser.parse_args()
    base = args.address.rstrip("/")
    alone = {(m, p): ask(base, m, p, args.tokens) for m in args.models for p in PROMPTS}
    for prompt in PROMPTS:
        assert len({alone[m, prompt] for m in args.models}) == len(args.models), "models that say the same prove nothing"
    end = time.monotonic() + args.seconds
    lock, wrong, times, left = threading.Lock(), [], {m: [] for m in args.models}, [0]

    def client(number):
        chance = random.Random(number)
        while time.monotonic() < end and not wrong:
            model, prompt = chance.choice(args.models), chance.choice(PROMPTS)
            stream = chance.random() < 0.5
            leaves = stream and chance.random() < 0.2
            began = time.monotonic()
            try:
                text = ask(base, model, prompt, args.tokens, stream, leaves)
            except Exception as error:
                wrong.append(f"{model}: {error!r}")
                return
            with lock:
                if text is None:
                    left[0] += 1
                elif text == alone[model, prompt]:
                    times[model].append(time.monotonic() - began)
                else:
                    wrong.append(f"{model} says {text!r} to {prompt!r}, and alone {alone[model, prompt]!r}")

    threads = [threading.Thread(target=client, args=(number,)) for number in range(args.clients)]
    for thread in threads:
        thread.start()
    most, loaded = 0, 0
    while any(thread.is_alive() for thread in threads):
        with urllib.request.urlopen(f"{base}/metrics", timeout=60) as response:
            metrics = response.read().decode()
        now, room = taken(metrics)
        most, loaded = max(most, now), max(loaded, int(re.search(r"^kernloom_models_loaded (\d+)$", metrics, re.M)[1]))
        if room is not None and now > room:
            wrong.append(f"models take {now} bytes of {room}")
        if loaded > args.at_a_time:
            wrong.append(f"{loaded} models are loaded")
        time.sleep(0.2)
    assert not wrong, wrong[0]
    for model, all_times in times.items():
        ordered = sorted(all_times)
        assert ordered, f"{model} answered nobody"
        print(f"{model}: {len(ordered)} answers, {ordered[len(ordered) // 2]:.2f} s median, {ordered[-1]:.2f} s at most")
    print(f"{left[0]} left in the middle; at most {loaded} models loaded, {most / 2**20:.1f} MiB by their plans; nothing mixed")


if __name__ == "__main__":
    main()
