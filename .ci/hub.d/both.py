"""What huggingface_hub and kernloom do with each other's caches. Usage: both.py KERNLOOM WORK"""

import json
import os
import pathlib
import subprocess
import sys

program, work = sys.argv[1], pathlib.Path(sys.argv[2])
files = work / "files" / "user" / "tiny-GGUF"
theirs, ours = work / "theirs", work / "ours"
repo = "user/tiny-GGUF"
os.environ["HF_HOME"] = str(work / "home")

import huggingface_hub as hub  # noqa: E402  (reads the environment when it is imported)


def kernloom(cache, *arguments):
    """Runs the program on a cache, and gives what it prints."""
    environment = dict(os.environ, HF_HUB_CACHE=str(cache))
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


def models(cache):
    """The models that the program sees, by name."""
    return {model["name"]: model for model in json.loads(kernloom(cache, "ls", "--json"))["models"]}


def same(path, name):
    assert pathlib.Path(path).read_bytes() == (files / name).read_bytes(), path


# The hub of the tests is a hub to them, and what they write we read.
info = hub.HfApi().model_info(repo, files_metadata=True)
assert {s.rfilename for s in info.siblings} == {"tiny-Q4_0.gguf", "more/tiny-Q8_0.gguf", "config.json"}
path = hub.hf_hub_download(repo, "tiny-Q4_0.gguf", cache_dir=theirs)
same(path, "tiny-Q4_0.gguf")
seen = models(theirs)
assert list(seen) == [f"{repo}:Q4_0"] and seen[f"{repo}:Q4_0"]["path"] == path, seen
hub.snapshot_download(repo, cache_dir=theirs)
assert set(models(theirs)) == {f"{repo}:Q4_0", f"{repo}:Q8_0"}
ids = kernloom(theirs, "tokenize", "--offline", "-m", f"{repo}:Q8_0", "a fox")
assert ids == kernloom(theirs, "tokenize", "-m", str(files / "tiny-Q4_0.gguf"), "a fox")
before = sorted(theirs.rglob("*"))
kernloom(theirs, "pull", f"{repo}:Q4_0")
assert [p for p in sorted(theirs.rglob("*")) if ".locks" not in p.parts] == [p for p in before if ".locks" not in p.parts]

# What we write they read, to the names of the blobs.
path = kernloom(ours, "pull", f"{repo}:Q4_0").strip()
same(path, "tiny-Q4_0.gguf")
kernloom(ours, "pull", f"{repo}:q8_0")
scanned = hub.scan_cache_dir(ours)
assert not scanned.warnings, scanned.warnings
(found,) = scanned.repos
(revision,) = found.revisions
assert found.repo_id == repo and found.repo_type == "model" and revision.commit_hash == info.sha, scanned
assert revision.refs == {"main"} and found.nb_files == 2, scanned
assert found.size_on_disk == sum((files / name).stat().st_size for name in ("tiny-Q4_0.gguf", "more/tiny-Q8_0.gguf"))
for name in ("tiny-Q4_0.gguf", "more/tiny-Q8_0.gguf"):
    local = hub.hf_hub_download(repo, name, cache_dir=ours, local_files_only=True)
    assert local == hub.hf_hub_download(repo, name, cache_dir=ours)
    same(local, name)
    assert pathlib.Path(local).resolve().name == pathlib.Path(theirs / pathlib.Path(local).relative_to(ours)).resolve().name

# Each removes what the other wrote.
scanned.delete_revisions(revision.commit_hash).execute()
assert models(ours) == {}
kernloom(theirs, "rm", "-y", f"{repo}:Q8_0")
(found,) = hub.scan_cache_dir(theirs).repos
assert {f.file_name for r in found.revisions for f in r.files} == {"tiny-Q4_0.gguf", "config.json"}, found
kernloom(theirs, "rm", "-y", repo)
assert models(theirs) == {} and not hub.scan_cache_dir(theirs).warnings
print(f"huggingface_hub {hub.__version__}: ok")
