"""Safetensors files, as much of them as the model needs: BF16 and F32, in shards."""

import json
import struct
from pathlib import Path

import torch

SHARD_BYTES = 12 << 20
TYPES = {"BF16": torch.bfloat16, "F32": torch.float32}


def save_shards(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Safetensors files with at most SHARD_BYTES of data each, and their index."""
    shards: list[dict[str, torch.Tensor]] = [{}]
    for name, tensor in tensors.items():
        if sum(t.nbytes for t in shards[-1].values()) + tensor.nbytes > SHARD_BYTES:
            shards.append({})
        shards[-1][name] = tensor
    index = {}
    for i, shard in enumerate(shards, 1):
        name = f"model-{i:05}-of-{len(shards):05}.safetensors"
        header, at = {}, 0
        for key, tensor in shard.items():
            kind = next(name for name, dtype in TYPES.items() if dtype == tensor.dtype)
            header[key] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
            at += tensor.nbytes
            index[key] = name
        head = json.dumps(header).encode()
        head += b" " * (-len(head) % 8)
        with open(folder / name, "wb") as file:
            file.write(struct.pack("<Q", len(head)) + head)
            for tensor in shard.values():
                file.write(tensor.view(torch.uint8).numpy().tobytes())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def load_shards(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of the files in a folder."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        (size,) = struct.unpack("<Q", data[:8])
        for name, entry in json.loads(data[8:8 + size]).items():
            start, end = entry["data_offsets"]
            raw = bytearray(data[8 + size + start:8 + size + end])
            tensors[name] = torch.frombuffer(raw, dtype=TYPES[entry["dtype"]]).view(entry["shape"])
    return tensors
