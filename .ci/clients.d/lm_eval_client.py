"""lm_eval against a server whose address is the first argument: it scores questions of our own, offline and with the
server's tokenizer. What it says of each continuation has to be what `kernloom logits` says.

lm_eval_client.py ADDRESS MODEL.gguf KERNLOOM FOLDER, where the folder is empty."""

import array
import json
import math
import os
import pathlib
import subprocess
import sys
import urllib.request

base, model, program, folder = sys.argv[1:5]
folder = pathlib.Path(folder)
here = pathlib.Path(__file__).parent / "lm_eval"
task = (here / "facts.yaml").read_text().replace("FOLDER", str(here))
(folder / "facts.yaml").write_text(task)
offline = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hub")}
subprocess.run(
    [
        *(str(pathlib.Path(sys.executable).with_name("lm_eval")), "run", "--model", "local-completions"),
        *("--model_args", f"base_url={base}/v1/completions,model=any,num_concurrent=4"),
        *("--include_path", str(folder), "--tasks", "facts", "--output_path", str(folder / "out"), "--log_samples"),
    ],
    check=True,
    env=offline,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    cwd=folder,
)


def tokens(text):
    body = json.dumps({"prompt": text, "add_special_tokens": False}).encode()
    request = urllib.request.Request(f"{base}/tokenize", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["tokens"]


def likelihood(context, continuation):
    """The sum over the tokens that come after those of the context, by the logits of all."""
    known, all_tokens = tokens(context), tokens(context + continuation)
    out = folder / "logits"
    ids = ",".join(map(str, all_tokens))
    subprocess.run(
        [program, "logits", model, "--tokens", ids, "--numerics", "exact", "--out", out], check=True, capture_output=True
    )
    logits = array.array("f", out.read_bytes())
    width, total = len(logits) // len(all_tokens), 0.0
    for at in range(len(known), len(all_tokens)):
        row = logits[(at - 1) * width : at * width]
        most = max(row)
        total += row[all_tokens[at]] - most - math.log(sum(math.exp(logit - most) for logit in row))
    return total


(samples,) = folder.glob("out/*/samples_facts_*.jsonl")
worst, count = 0.0, 0
for line in samples.read_text().splitlines():
    sample = json.loads(line)
    for arguments, ((given, _),) in zip(sample["arguments"].values(), sample["resps"]):
        worst = max(worst, abs(float(given) - likelihood(arguments["arg_0"], arguments["arg_1"])))
        count += 1
assert count == 18 and worst < 1e-3, (count, worst)
print(f"lm_eval: ok; {count} continuations, at most {worst:.1e} from their logits")
