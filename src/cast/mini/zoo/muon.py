"""Muon in float32: torch's own orthogonalises in bfloat16, four times slower on a plain CPU."""

from itertools import groupby
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


class Muon(torch.optim.Muon):
    """`torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"`; the same state, other rounding."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """One update of every matrix that has a gradient; matrices of one shape go together."""
        assert closure is None
        for group in self.param_groups:
            found = [p for p in group["params"] if p.grad is not None]
            found.sort(key=lambda p: tuple(p.shape))
            for shape, same in groupby(found, key=lambda p: tuple(p.shape)):
                parameters = list(same)
                updates = orthogonalised(
                    torch.stack([self._nesterov(p, group["momentum"]) for p in parameters]),
                    group["ns_coefficients"],
                    group["ns_steps"],
                )
                rate = group["lr"] * 0.2 * max(shape) ** 0.5
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(update, alpha=-rate)

    def _nesterov(self, parameter: Tensor, momentum: float) -> Tensor:
        assert parameter.grad is not None
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter.grad)
        buffer = state["momentum_buffer"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(buffer, momentum)


def orthogonalised(
    matrices: Float[Tensor, "N A B"], coefficients: tuple[float, float, float], steps: int
) -> Float[Tensor, "N A B"]:
    """Matrices with singular values near 1, by Newton and Schulz's quintic iteration."""
    a, b, c = coefficients
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
