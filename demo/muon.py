"""The optimiser of the matrices: momentum whose singular values are made equal (Muon, Jordan et al. 2024)."""

import torch
from torch import Tensor


def orthogonal(m: Tensor, steps: int = 5) -> Tensor:
    """Matrices `[n, rows, columns]` with the same singular vectors and singular values near 1, by Newton-Schulz."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = m.bfloat16()
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return (x if wide else x.mT).to(m.dtype)


class Muon(torch.optim.Optimizer):
    """For parameters that are matrices; those of one shape are updated together."""

    def __init__(self, params, lr: float, momentum: float = 0.95, weight_decay: float = 0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            same: dict[torch.Size, list] = {}
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                same.setdefault(p.shape, []).append((p, p.grad.lerp(m, group["momentum"])))
            for entries in same.values():
                updates = orthogonal(torch.stack([u for _, u in entries]))
                for (p, _), update in zip(entries, updates):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(update, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)
