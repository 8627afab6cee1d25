"""Makes vectors.json: the tokens that llama-tokenize finds for the cases of mod.rs, by name of a splitting rule.

    make_vectors.py LLAMA_TOKENIZE FOLDER

FOLDER is for the vocabularies. Names are read from the rows of the tokenizer.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

here = pathlib.Path(__file__).parent
tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
rows = (here / "../../src/tokenizer/split/rows.rs").read_text()
rows = rows[rows.index("const ROWS") : rows.index("impl Splitter")]
# The name of Gemma 4 is a kind of vocabulary of its own, with vectors of its own.
names = [name for name in re.findall(r'"([^"]+)"', rows) if name not in ("gemma4", "granite-embed-multi-311m")]
names += ["rwkv", "plamo2"]
folder.mkdir(parents=True, exist_ok=True)
(folder / "names").write_text("\n".join(names))
subprocess.run(
    ["cargo", "test", "--release", "-p", "kernloom-text", "--test", "all", "write_vocabularies", "--", "--ignored"],
    env=os.environ | {"PRE_VOCABULARIES": str(folder.resolve())}, check=True, cwd=here)
groups = {}
for name in names:
    vectors = []
    for case in sorted(folder.glob("*.txt"), key=lambda path: int(path.stem)):
        told = subprocess.run(
            [tool, "-m", folder / f"{name}.gguf", "-f", case, "--ids", "--no-bos", "--no-parse-special", "--no-escape",
             "--log-disable"], check=True, capture_output=True, text=True).stdout
        vectors.append(json.loads(told))
    groups.setdefault(json.dumps(vectors), []).append(name)
text = "[\n" + ",\n".join(f"[{json.dumps(names)},\n{vectors}]" for vectors, names in groups.items()) + "\n]\n"
(here / "vectors.json").write_text(text)
print(f"{len(names)} names, {len(groups)} ways to split")
