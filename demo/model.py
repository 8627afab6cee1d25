"""The model in plain PyTorch: what GLM-4.7-Flash is, smaller.

Latent attention with low-rank queries and interleaved rotation; a leading dense block; then mixtures of experts with
sigmoid scores, a bias that only chooses, normalised weights and a shared expert. Experts are computed for every token
and masked: at this size a launch costs more than the arithmetic."""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """Sizes, under the names that such models have in their config.json."""

    vocab_size: int = 3968
    hidden_size: int = 256
    num_hidden_layers: int = 4
    first_k_dense_replace: int = 1
    num_attention_heads: int = 4
    qk_nope_head_dim: int = 64
    qk_rope_head_dim: int = 32
    v_head_dim: int = 64
    q_lora_rank: int = 256
    kv_lora_rank: int = 256
    intermediate_size: int = 1024
    moe_intermediate_size: int = 256
    n_routed_experts: int = 6
    num_experts_per_tok: int = 2
    n_shared_experts: int = 1
    routed_scaling_factor: float = 1.8
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    max_position_embeddings: int = 2048

    def to_dict(self) -> dict:
        return asdict(self)


class Norm(nn.Module):
    """RMSNorm, in f32."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.eps)


def matrix(rows: int, columns: int, gain: float = 1.0) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * gain * columns ** -0.5)


class Block(nn.Module):
    """Attention and feed-forward around a residual stream of `[tokens, hidden]`."""

    def __init__(self, config: Config, layer: int):
        super().__init__()
        c = self.config = config
        heads, query = c.num_attention_heads, c.qk_nope_head_dim + c.qk_rope_head_dim
        self.dense = layer < c.first_k_dense_replace
        self.attn_norm, self.ffn_norm = Norm(c.hidden_size, c.rms_norm_eps), Norm(c.hidden_size, c.rms_norm_eps)
        self.q_a, self.q_a_norm = matrix(c.q_lora_rank, c.hidden_size), Norm(c.q_lora_rank, c.rms_norm_eps)
        self.q_b = matrix(heads * query, c.q_lora_rank)
        self.kv_a, self.kv_a_norm = matrix(c.kv_lora_rank + c.qk_rope_head_dim, c.hidden_size), Norm(c.kv_lora_rank, c.rms_norm_eps)
        self.kv_b = matrix(heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank)
        self.output = matrix(c.hidden_size, heads * c.v_head_dim, 0.2)
        # Experts side by side are one wide feed-forward whose middle is weighted in blocks; the shared one comes last.
        width = c.intermediate_size if self.dense else c.moe_intermediate_size * (c.n_routed_experts + c.n_shared_experts)
        self.gate, self.up = matrix(width, c.hidden_size), matrix(width, c.hidden_size)
        self.down = matrix(c.hidden_size, width, 0.2)
        if not self.dense:
            self.router = matrix(c.n_routed_experts, c.hidden_size)
            self.register_buffer("bias", torch.zeros(c.n_routed_experts))

    def before(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values `[tokens, heads, ...]`. `cos` and `sin` are `[tokens, 1, rope / 2]`."""
        c = self.config
        h = self.attn_norm(x)
        q = F.linear(self.q_a_norm(F.linear(h, self.q_a)), self.q_b).unflatten(-1, (c.num_attention_heads, -1))
        latent, k_rope = F.linear(h, self.kv_a).split([c.kv_lora_rank, c.qk_rope_head_dim], -1)
        kv = F.linear(self.kv_a_norm(latent), self.kv_b).unflatten(-1, (c.num_attention_heads, -1))
        k, v = kv.split([c.qk_nope_head_dim, c.v_head_dim], -1)
        q, q_rope = q.split([c.qk_nope_head_dim, c.qk_rope_head_dim], -1)
        k_rope = rotate(k_rope.unsqueeze(-2), cos, sin).expand(-1, c.num_attention_heads, -1)
        q = torch.cat([q, rotate(q_rope, cos, sin)], -1)
        k = torch.cat([k, k_rope.to(k.dtype)], -1)
        # The kernels of attention want values as long as keys.
        return q.to(v.dtype), k, F.pad(v, (0, q.shape[-1] - c.v_head_dim))

    def after(self, x: Tensor, heads: Tensor) -> tuple[Tensor, Tensor]:
        """The stream after the block, and how many tokens chose each expert. `heads` is `[tokens, heads, v]`."""
        c = self.config
        x = x + F.linear(heads.flatten(-2), self.output).float()
        h = self.ffn_norm(x)
        middle = F.silu(F.linear(h, self.gate)) * F.linear(h, self.up)
        counts = torch.zeros(c.n_routed_experts, device=x.device)
        if not self.dense:
            with torch.autocast(x.device.type, enabled=False):
                scores = torch.sigmoid(F.linear(h, self.router))
                chosen = torch.topk(scores.detach() + self.bias, c.num_experts_per_tok, dim=-1).indices
                mask = F.one_hot(chosen, c.n_routed_experts).sum(-2).to(scores.dtype)
                weights = scores * mask
                weights = weights / weights.sum(-1, keepdim=True) * c.routed_scaling_factor
                counts = mask.sum(0)
                weights = F.pad(weights, (0, c.n_shared_experts), value=1.0)
            middle = (middle.unflatten(-1, (-1, c.moe_intermediate_size)) * weights.unsqueeze(-1).to(middle.dtype)).flatten(-2)
        return x + F.linear(middle, self.down).float(), counts


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns the pairs (2i, 2i + 1)."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Model(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.randn(config.vocab_size, config.hidden_size) * 0.5)
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.num_hidden_layers))
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)
        self.head = nn.Parameter(torch.zeros(config.vocab_size, config.hidden_size))

    def stream(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The normalised last stream `[batch * length, hidden]` of tokens `[batch, length]`, and the counts of experts
        `[layers, experts]`."""
        c, (batch, length) = self.config, tokens.shape
        turns = c.rope_theta ** (-torch.arange(0, c.qk_rope_head_dim, 2, device=tokens.device) / c.qk_rope_head_dim)
        angle = (torch.arange(length, device=tokens.device)[:, None] * turns).repeat(batch, 1).unsqueeze(1)
        cos, sin = angle.cos(), angle.sin()
        x = self.embedding[tokens.flatten()]
        counts = []
        for block in self.blocks:
            q, k, v = (t.view(batch, length, *t.shape[1:]).transpose(1, 2) for t in block.before(x, cos, sin))
            heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)[..., :c.v_head_dim]
            x, count = block.after(x, heads.transpose(1, 2).reshape(batch * length, c.num_attention_heads, -1))
            counts.append(count)
        return self.norm(x), torch.stack(counts)

    def losses(self, x: Tensor, targets: Tensor, learn: Tensor) -> Tensor:
        """Sum of the losses where `learn` says so, and their number."""
        loss = F.cross_entropy(F.linear(x, self.head).float(), targets, reduction="none")
        return torch.stack([(loss * learn).sum(), learn.sum()])

    def logits(self, tokens: Tensor) -> Tensor:
        """`[batch * length, vocabulary]`."""
        return F.linear(self.stream(tokens)[0], self.head)

    @torch.no_grad()
    def balance(self, counts: Tensor, rate: float) -> None:
        """Moves the biases so that every expert is chosen as often as the others."""
        for block, count in zip(self.blocks, counts):
            if not block.dense:
                block.bias += rate * torch.sign(count.mean() - count)

    @torch.no_grad()
    def tensors(self) -> dict[str, Tensor]:
        """The weights under the names and in the shapes that such models have in safetensors: matrices in BF16, what
        files keep in F32 in F32."""
        c, out = self.config, {}
        out["model.embed_tokens.weight"], out["lm_head.weight"], out["model.norm.weight"] = self.embedding, self.head, self.norm.weight
        for i, b in enumerate(self.blocks):
            attention, ffn = f"model.layers.{i}.self_attn.", f"model.layers.{i}.mlp."
            out |= {f"model.layers.{i}.input_layernorm.weight": b.attn_norm.weight, f"model.layers.{i}.post_attention_layernorm.weight": b.ffn_norm.weight,
                    attention + "q_a_proj.weight": b.q_a, attention + "q_a_layernorm.weight": b.q_a_norm.weight, attention + "q_b_proj.weight": b.q_b,
                    attention + "kv_a_proj_with_mqa.weight": b.kv_a, attention + "kv_a_layernorm.weight": b.kv_a_norm.weight,
                    attention + "kv_b_proj.weight": b.kv_b, attention + "o_proj.weight": b.output}
            if b.dense:
                out |= {ffn + "gate_proj.weight": b.gate, ffn + "up_proj.weight": b.up, ffn + "down_proj.weight": b.down}
                continue
            out[ffn + "gate.weight"], out[ffn + "gate.e_score_correction_bias"] = b.router, b.bias
            w = c.moe_intermediate_size
            for e in range(c.n_routed_experts + 1):
                name = ffn + (f"experts.{e}." if e < c.n_routed_experts else "shared_experts.")
                end = (e + 1) * w if e < c.n_routed_experts else None
                out |= {name + "gate_proj.weight": b.gate[e * w:end], name + "up_proj.weight": b.up[e * w:end], name + "down_proj.weight": b.down[:, e * w:end]}
        f32 = lambda name, t: t.dim() == 1 or name.endswith("mlp.gate.weight")
        return {name: t.detach().to("cpu", torch.float32 if f32(name, t) else torch.bfloat16).contiguous() for name, t in out.items()}

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Takes weights that [tensors] gave."""
        c = self.config
        named = lambda name: tensors[name].float()
        self.embedding.copy_(named("model.embed_tokens.weight"))
        self.head.copy_(named("lm_head.weight"))
        self.norm.weight.copy_(named("model.norm.weight"))
        for i, b in enumerate(self.blocks):
            layer, attention, ffn = f"model.layers.{i}.", f"model.layers.{i}.self_attn.", f"model.layers.{i}.mlp."
            for to, name in [(b.attn_norm.weight, layer + "input_layernorm"), (b.ffn_norm.weight, layer + "post_attention_layernorm"),
                             (b.q_a, attention + "q_a_proj"), (b.q_a_norm.weight, attention + "q_a_layernorm"), (b.q_b, attention + "q_b_proj"),
                             (b.kv_a, attention + "kv_a_proj_with_mqa"), (b.kv_a_norm.weight, attention + "kv_a_layernorm"),
                             (b.kv_b, attention + "kv_b_proj"), (b.output, attention + "o_proj")]:
                to.copy_(named(name + ".weight"))
            parts = [""] if b.dense else [f"experts.{e}." for e in range(c.n_routed_experts)] + ["shared_experts."]
            for to, name, dim in [(b.gate, "gate", 0), (b.up, "up", 0), (b.down, "down", 1)]:
                to.copy_(torch.cat([named(f"{ffn}{part}{name}_proj.weight") for part in parts], dim))
            if not b.dense:
                b.router.copy_(named(ffn + "gate.weight"))
                b.bias.copy_(named(ffn + "gate.e_score_correction_bias"))
