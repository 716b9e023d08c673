"""The state of a run: adapter, optimizer, moving average, and the account of what was done."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from cast.config import TrainingSection
from cast.errors import CastError
from cast.training.checkpoint import Checkpoint
from cast.training.gradients import Gradients

EMA_EVERY = 4


def learning_rate(update: int, training: TrainingSection) -> float:
    """Rate of an update (counted from 0): linear warm-up, then constant (peers; design 9)."""
    if update >= training.warmup:
        return training.learning_rate
    return training.learning_rate * (update + 1) / training.warmup


class TrainingState:
    """What a checkpoint holds. The schedule is a function of `update`, so it needs no state.

    `collection` and `update` count what is done. `metrics` has one row a collection; none of its
    values depends on time, device or process count.
    """

    def __init__(self, parameters: Mapping[str, Parameter], training: TrainingSection) -> None:
        self.parameters = dict(sorted(parameters.items()))
        self.training = training
        self.optimizer = torch.optim.AdamW(
            list(self.parameters.values()),
            lr=training.learning_rate,
            betas=training.betas,
            eps=1e-8,
            weight_decay=training.weight_decay,
            foreach=False,
        )
        self.ema = {n: p.detach().clone() for n, p in self.parameters.items() if training.ema > 0}
        self.collection = 0
        self.images = 0
        self.learning_rates: list[float] = []
        self.prompt_ids: list[str] = []
        self.window_starts: list[list[int]] = []
        self.metrics: list[dict[str, Any]] = []

    @property
    def update(self) -> int:
        """Updates made so far."""
        return len(self.learning_rates)

    def apply(self, gradients: Gradients) -> None:
        """One AdamW step at the schedule's rate; every fourth also moves the average."""
        rate = learning_rate(self.update, self.training)
        for parameter, gradient in zip(self.parameters.values(), gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.learning_rates.append(rate)
        if self.ema and self.update % EMA_EVERY == 0:
            for name, average in self.ema.items():
                average.lerp_(self.parameters[name].detach(), 1.0 - self.training.ema)

    def checkpoint(self) -> Checkpoint:
        """A copy to be saved."""
        tensors = {f"adapter/{n}": p.detach().cpu() for n, p in self.parameters.items()}
        for name, parameter in self.parameters.items():
            moments = self.optimizer.state.get(parameter, {})
            for key in ("exp_avg", "exp_avg_sq"):
                if key in moments:
                    tensors[f"{key}/{name}"] = moments[key].cpu()
        tensors |= {f"ema/{n}": average.cpu() for n, average in self.ema.items()}
        record = {
            "collection": self.collection,
            "images": self.images,
            "learning_rates": self.learning_rates,
            "prompt_ids": self.prompt_ids,
            "window_starts": self.window_starts,
            "metrics": self.metrics,
        }
        return Checkpoint(self.collection, tensors, record)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over a checkpoint; raises `CastError` when it is of another adapter."""
        held = {key.split("/", 1)[1] for key in checkpoint.tensors if key.startswith("adapter/")}
        if held != set(self.parameters):
            different = sorted(held ^ set(self.parameters))
            raise CastError(
                f"checkpoint step {checkpoint.step}: its adapter has other parameters than this "
                f"run's ({len(different)} differ, e.g. {different[0]}). Train in another folder."
            )
        for key in ("collection", "images", "learning_rates", "prompt_ids"):
            setattr(self, key, checkpoint.record[key])
        self.window_starts = checkpoint.record["window_starts"]
        self.metrics = checkpoint.record["metrics"]
        for name, parameter in self.parameters.items():
            with torch.no_grad():
                parameter.copy_(checkpoint.tensors[f"adapter/{name}"])
            if self.update:
                self.optimizer.state[parameter] = {
                    "step": torch.tensor(float(self.update)),
                    "exp_avg": checkpoint.tensors[f"exp_avg/{name}"].to(parameter.device),
                    "exp_avg_sq": checkpoint.tensors[f"exp_avg_sq/{name}"].to(parameter.device),
                }
        for name, average in self.ema.items():
            average.copy_(checkpoint.tensors[f"ema/{name}"])

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The moving average in the adapter's place, where there is one."""
        current: dict[str, Tensor] = {n: self.parameters[n].detach().clone() for n in self.ema}
        self._put(self.ema)
        try:
            yield
        finally:
            self._put(current)

    def _put(self, values: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, value in values.items():
                self.parameters[name].copy_(value)
