"""Gradients summed in a fixed order, so that the number of processes doesn't change a bit."""

from collections.abc import Sequence

import torch
from torch import Tensor

Gradients = list[Tensor]


class PairwiseSum:
    """Sum of gradients over leaves (a micro-batch at a transition), as a balanced binary tree.

    Float addition isn't associative: a running sum over 8 leaves differs from the sum of two
    ranks' sums over 4. In a balanced tree, a power-of-two share of the leaves is a subtree, so
    ranks that hold equal such shares sum their own and then meet in the same tree. Holds
    log2(leaves) copies of the gradient.
    """

    def __init__(self) -> None:
        self._levels: list[tuple[int, Gradients]] = []

    def add(self, gradients: Gradients) -> None:
        """Add the next leaf; the tensors are taken over and changed in place."""
        level = 0
        while self._levels and self._levels[-1][0] == level:
            _, left = self._levels.pop()
            gradients = _added(left, gradients)
            level += 1
        self._levels.append((level, gradients))

    def total(self) -> Gradients:
        """The sum; the subtrees of a count that is no power of two join from right to left."""
        if not self._levels:
            raise ValueError("no gradient was added")
        total = self._levels.pop()[1]
        while self._levels:
            total = _added(self._levels.pop()[1], total)
        return total


def _added(left: Gradients, right: Gradients) -> Gradients:
    for mine, other in zip(left, right, strict=True):
        mine.add_(other)
    return left


def take_gradients(parameters: Sequence[Tensor]) -> Gradients:
    """Move the parameters' `.grad` out (zeros where there is none) and clear it."""
    taken = []
    for parameter in parameters:
        taken.append(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
        parameter.grad = None
    return taken


def gradient_norm(gradients: Sequence[Tensor]) -> float:
    """Euclidean norm over all tensors, summed in float64."""
    return float(sum(g.double().square().sum() for g in gradients) ** 0.5)


def clip_gradients(gradients: Gradients, largest: float) -> float:
    """Scale in place to a norm of at most `largest`; returns the norm before."""
    norm = gradient_norm(gradients)
    if norm > largest:
        for gradient in gradients:
            gradient.mul_(largest / norm)
    return norm
