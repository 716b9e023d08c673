"""What a model's steps cost, counted by running its real adapter: operations and live memory.

On the meta device nothing is computed, so 32 billion parameters are counted in seconds. On a
loaded backbone the same functions count the same numbers. A multiplication with an addition is
two operations (torch's `FlopCounterMode`: matrix products, convolutions and attention; the
elementwise rest is left out).
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

_aten: Any = torch.ops.aten


def _attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _attention_backward(gradient: Any, query: Any, key: Any, value: Any, *a: Any, **k: Any) -> int:
    return sdpa_backward_flop_count(gradient, query, key, value)


CPU_ATTENTION = {  # torch's counter knows attention on GPUs only
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}


@contextmanager
def _fused_attention() -> Iterator[None]:
    """On the meta device torch would take the unfused attention, whose [S, S] scores no GPU keeps.

    The function is replaced, and not caught by a `TorchFunctionMode`, because such a mode isn't
    active while a checkpointed block is run again.
    """
    own = nn.functional.scaled_dot_product_attention

    def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if query.device.type != "meta":
            return own(query, key, value, *args, **kwargs)
        groups = query.shape[1] // key.shape[1]
        key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
        return _aten._scaled_dot_product_flash_attention(query, key, value)[0]

    nn.functional.scaled_dot_product_attention = attention
    try:
        yield
    finally:
        nn.functional.scaled_dot_product_attention = own


class _LiveMemory(TorchDispatchMode):
    """Bytes of all storages that came up and are still referenced, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()

    def ignore(self, tensors: list[Tensor]) -> None:
        """Weights are counted elsewhere."""
        self._known = [tensor.untyped_storage() for tensor in tensors]
        self._seen.update(self._known)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._note(tensor.untyped_storage())
        return result

    def _note(self, storage: Any) -> None:
        if storage in self._seen:
            return
        self._seen.add(storage)
        size = storage.nbytes()
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._free, size)

    def _free(self, size: int) -> None:
        self.live -= size


def count_operations(function: Callable[[], Any]) -> int:
    """Floating-point operations of a call."""
    counter = FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION)
    with _fused_attention(), counter:
        function()
    return counter.get_total_flops()


def peak_bytes(function: Callable[[], Any], weights: list[Tensor]) -> int:
    """Most bytes that a call holds at a time beyond `weights` and what it was given."""
    memory = _LiveMemory()
    memory.ignore(weights)
    with _fused_attention(), memory:
        function()
    return memory.peak


class Steps:
    """The calls that a run is made of, on one backbone, for as many images as `conditioning`."""

    def __init__(self, backbone: Any, conditioning: Any) -> None:
        self.backbone, self.conditioning = backbone, conditioning
        self.device = next(backbone.transformer.parameters()).device
        self.x = torch.zeros(len(conditioning), *backbone.latent_shape, device=self.device)
        self.sigma = torch.full((len(conditioning),), 0.5, device=self.device)

    @torch.no_grad()
    def step(self) -> Tensor:
        """One sampler step: the guided velocity."""
        with self.device:
            return self.backbone.velocity(self.x, self.sigma, self.conditioning)

    def update(self) -> None:
        """One replayed transition and its backward pass into the adapter.

        Gradients are dropped as they come: they are counted with the adapter, not here.
        """
        hooks = [
            parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
            for parameter in self.backbone.trainable_parameters().values()
        ]
        with self.device:
            self.backbone.velocity(self.x, self.sigma, self.conditioning).square().mean().backward()
        for hook in hooks:
            hook.remove()

    @torch.no_grad()
    def decode(self) -> Tensor:
        """Latents to pixels."""
        return self.backbone._decode(self.x.to(self.backbone.dtype))

    def count_update(self, checkpointed: bool) -> tuple[int, int]:
        """Operations of `update` and its peak bytes: activations and temporaries.

        With gradient checkpointing the forward pass runs twice.
        """
        transformer = self.backbone.transformer
        weights = [*transformer.parameters(), *transformer.buffers()]
        transformer.train()  # diffusers checkpoints in training mode only; nothing drops out
        if checkpointed:
            transformer.enable_gradient_checkpointing()
        try:
            # Two passes: torch's counter keeps what passes through it alive.
            return count_operations(self.update), peak_bytes(self.update, weights)
        finally:
            transformer.eval()
            if checkpointed:
                transformer.disable_gradient_checkpointing()
