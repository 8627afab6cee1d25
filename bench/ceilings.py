"""What a machine could reach at most in a test: the least time that its bytes and its multiply-adds take.

A step has two parts that wait for each other in every layer, so their times add up. Inside a part reading and computing
overlap, so the longer of the two counts:

    linear layers   max(bytes of weights / read bandwidth, products / peak of products)
    attention       max(bytes of the cache / read bandwidth, products / f32 peak)

- The peak of products is 8/11 of the peak of 8-bit integer dots: eight dots, a conversion, a product and a multiply-add
  for 32 products of a block format share two ports. Where there is a matrix unit, it is that unit's peak.
- Bandwidth and peaks are those that `kernloom bench --machine` measured in the same run; layers, heads, ranks and the
  bytes of tensors are those that `kernloom show --json` prints.
- Bytes: decoding reads all weights a token, of experts those used; the cache is read up to the token. A prompt reads
  weights and cache once. Several sequences read weights once a step, and each its own cache. Tokens that choose `used`
  of `count` experts, each for itself, need `count (1 - (1 - used / count)^tokens)` of them. A table of embeddings is
  read only where it is the head too.
- Products of linear layers: an element of a matrix one a token, of experts those used. The head counts where logits are
  wanted: for each token that is decoded, and once a prompt.
- Products of attention for a token and a position: `heads (key + value)`. Latent attention that decodes has the absorbed
  form, `heads (2 rank + rope)`. A prompt has that or the decompressed form, whichever takes less time: `heads (nope +
  rope + value)`, with keys and values of the positions that were in the cache before made once, `heads rank (nope +
  value)` each, as products of linear layers. Those of its own tokens are among the linear layers in both forms.

Norms, softmax, choosing experts and quantising count nothing. A program that reads the next weights while it attends
could pass the sum by that; none does.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Machine:
    """Bytes a second, and multiply-adds a second."""

    read: float
    linear: float
    f32: float
    # What the peak of linear layers is called.
    unit: str

    @staticmethod
    def of(measured):
        """The mean of what `kernloom bench --machine -o json` printed, before and after."""
        mean = {key: sum(one[key] for one in measured) / len(measured) * 1e9
                for key in ("read_gb_per_s", "int8_gmac_per_s", "f32_gmac_per_s")}
        tiles = [one.get("bf16_tile_gmac_per_s") for one in measured]
        linear, unit = mean["int8_gmac_per_s"] * 8 / 11, "8/11 of the integer peak"
        if all(tiles):
            linear, unit = sum(tiles) / len(tiles) * 1e9, "the matrix unit's peak"
        return Machine(mean["read_gb_per_s"], linear, mean["f32_gmac_per_s"], unit)


@dataclasses.dataclass(frozen=True)
class Work:
    """A test: `tokens` tokens of each of some sequences that have `depth` positions before; either together, as a prompt,
    or one after the other."""

    tokens: int
    depth: int = 0
    sequences: int = 1
    prompt: bool = False

    @property
    def pairs(self):
        """Pairs of a token and a position that it sees, of all sequences."""
        return self.sequences * (self.tokens * self.depth + self.tokens * (self.tokens + 1) // 2)


@dataclasses.dataclass(frozen=True)
class Part:
    """Seconds that reading and computing take."""

    reading: float
    computing: float

    @property
    def seconds(self):
        return max(self.reading, self.computing)


@dataclasses.dataclass(frozen=True)
class Ceiling:
    """The least time of a test, by its parts."""

    linear: Part
    attention: Part
    # What the peak of linear layers is called.
    unit: str

    @property
    def seconds(self):
        return self.linear.seconds + self.attention.seconds

    @property
    def name(self):
        """What bounds the test: what takes a tenth of the time or more, the longest first."""
        parts = [(self.linear, "read bandwidth", self.unit),
                 (self.attention, "read bandwidth", "the f32 peak")]
        times = {}
        for part, reading, computing in parts:
            what = reading if part.reading >= part.computing else computing
            times[what] = times.get(what, 0.0) + part.seconds
        longest = sorted(times, key=times.get, reverse=True)
        return " and ".join(what for what in longest if times[what] >= 0.1 * self.seconds)

    def as_json(self):
        return {"seconds": self.seconds, "bound": self.name,
                "linear": {"reading_s": self.linear.reading, "computing_s": self.linear.computing},
                "attention": {"reading_s": self.attention.reading, "computing_s": self.attention.computing}}


class Model:
    """Bytes and products of a model, from what `kernloom show --json` printed."""

    def __init__(self, show):
        config = show["config"]
        self.layers, self.heads, self.attention = config["layers"], config["heads"], config["attention"]
        self.cache_bytes = show["cache_bytes_per_position"]
        experts = config.get("experts") or {}
        self.used = experts["used"] / experts["count"] if experts else 0.0
        self.experts = experts.get("count", 0)
        # Elements and bytes: of what every token needs, of all routed experts, of the head.
        self.common = self.routed = self.head = (0, 0)
        names = {tensor["name"] for tensor in show["tensors"]}
        head = "output.weight" if "output.weight" in names else "token_embd.weight"
        for tensor in show["tensors"]:
            name, size = tensor["name"], (elements(tensor), tensor["bytes"])
            if name == head:
                self.head = size
            elif name == "token_embd.weight" or layer_of(name) >= self.layers:
                # Rows of a table, and blocks past the last layer that predict further tokens.
                continue
            elif "_exps." in name:
                self.routed = plus(self.routed, size)
            else:
                self.common = plus(self.common, size)

    def products(self, tokens):
        """Products of linear layers for some tokens, without the head."""
        return tokens * (self.common[0] + self.used * self.routed[0])

    def bytes(self, tokens):
        """Bytes of weights that a step of so many tokens reads, with the head."""
        chosen = 1 - (1 - self.used) ** tokens
        return self.common[1] + self.head[1] + chosen * self.routed[1]

    def pair(self, decompressed):
        """Products of attention for a token and a position, in all layers."""
        a = self.attention
        if a["kind"] == "grouped":
            one = a["head"] + a["value"]
        elif decompressed:
            one = a["nope"] + a["rope"] + a["value"]
        else:
            one = 2 * a["kv_rank"] + a["rope"]
        return self.layers * self.heads * one

    def decompression(self):
        """Products that make keys and values of a position in the cache, in all layers."""
        a = self.attention
        return 0 if a["kind"] == "grouped" else self.layers * self.heads * a["kv_rank"] * (a["nope"] + a["value"])


def of(model, work, machine):
    """The ceiling of a test."""
    if work.prompt:
        read = model.bytes(work.tokens * work.sequences)
        wanted = work.sequences
        positions = work.sequences * (work.tokens + work.depth)
    else:
        # A step has a token of each sequence.
        read = work.tokens * model.bytes(work.sequences)
        wanted = work.tokens * work.sequences
        positions = work.pairs
    products = model.products(work.tokens * work.sequences) + wanted * model.head[0]
    attention = work.pairs * model.pair(False)
    if work.prompt:
        made = work.sequences * work.depth * model.decompression()
        other = work.pairs * model.pair(True)
        if other / machine.f32 + made / machine.linear < attention / machine.f32:
            products, attention = products + made, other
    return Ceiling(Part(read / machine.read, products / machine.linear),
                   Part(positions * model.cache_bytes / machine.read, attention / machine.f32), machine.unit)


def elements(tensor):
    """Elements of a matrix; a vector is no linear layer."""
    if len(tensor["shape"]) < 2:
        return 0
    total = 1
    for n in tensor["shape"]:
        total *= n
    return total


def layer_of(name):
    """The block of a tensor, or -1."""
    part = name.split(".")
    return int(part[1]) if part[0] == "blk" and len(part) > 1 and part[1].isdigit() else -1


def plus(one, other):
    return one[0] + other[0], one[1] + other[1]
