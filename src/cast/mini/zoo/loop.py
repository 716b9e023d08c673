"""One resumable training loop for every model of the zoo.

A step's batch depends on the step number alone, so a run that was killed and resumed ends with
the same bytes as an unbroken one. The learning rate is flat after a warm-up and falls linearly to
zero over the last part; a run can therefore be lengthened until the fall begins. Weight matrices
of transformer blocks go to Muon, everything else to AdamW (ours: design section 2 measured Muon a
tenth ahead at equal time).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from cast.io import read_json, write_json, write_safetensors
from cast.mini.zoo.muon import Muon

Losses = dict[str, Tensor]
LOOK_EVERY = 500  # steps between looks at what a model in training does


@dataclass(frozen=True)
class LoopConfig:
    """Training of one stage; images are counted as steps times batch."""

    steps: int
    batch: int
    learning_rate: float = 1.5e-3
    warmup: int = 200  # steps
    decay_share: float = 0.3  # last share of the steps over which the rate falls to zero
    weight_decay: float = 0.01
    gradient_clip: float = 1.0
    ema: float = 0.999
    seed: int = 0
    checkpoint_every: int = 250  # steps


class Trainer:
    """Modules in training with their optimizers, moving average and checkpoint.

    Muon takes the 2-D parameters, embeddings apart, whose names hold one of `blocks`.
    """

    def __init__(
        self,
        modules: nn.ModuleDict,
        config: LoopConfig,
        folder: Path,
        muon: bool = True,
        blocks: tuple[str, ...] = ("block",),
    ) -> None:
        self.modules, self.config, self.folder = modules, config, folder
        named = [(n, p) for n, p in modules.named_parameters() if p.requires_grad]
        matrix = {
            n
            for n, p in named
            if muon and p.ndim == 2 and "embed" not in n and any(block in n for block in blocks)
        }
        matrices = [p for n, p in named if n in matrix]
        rest = [p for n, p in named if n not in matrix]
        decay = config.weight_decay
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(rest, lr=config.learning_rate, weight_decay=decay)
        ]
        if matrices:
            self.optimizers.append(
                Muon(
                    matrices,
                    lr=config.learning_rate,
                    weight_decay=decay,
                    adjust_lr_fn="match_rms_adamw",
                )
            )
        self.parameters = dict(named)
        self.average = {name: p.detach().clone() for name, p in named}
        self.step = 0
        self.seconds = 0.0  # of wall time, over all resumed runs
        self._resume()

    def run(
        self, loss: Callable[[int], Losses], look: Callable[[int], None] | None = None
    ) -> dict[str, float]:
        """Train to the last step; return the mean of each loss over the last 200 steps.

        `loss(step)` returns named scalar terms whose sum is minimised. `look(steps done)` is called
        now and then, and at the end, with the moving average in the modules.
        """
        config = self.config
        writer = SummaryWriter(str(self.folder / "tensorboard"), purge_step=self.step)
        recent: list[dict[str, float]] = []
        bar = tqdm(range(self.step, config.steps), initial=self.step, total=config.steps)
        bar.set_description(self.folder.name)
        began = time.monotonic()
        for step in bar:
            terms = loss(step)
            values = {name: float(value.detach()) for name, value in terms.items()}
            recent = [*recent[-199:], values]
            self._update(sum(terms.values(), torch.zeros(())), step)
            if step % 50 == 0:
                means = _mean(recent[-50:])
                bar.set_postfix({name: f"{value:.4f}" for name, value in means.items()})
                for name, value in means.items():
                    writer.add_scalar(name, value, step)
            self.step = step + 1
            if self.step % config.checkpoint_every == 0 or self.step == config.steps:
                self.seconds += time.monotonic() - began
                began = time.monotonic()
                self._save(_mean(recent))
            if look is not None and (self.step % LOOK_EVERY == 0 or self.step == config.steps):
                with self._averaged():
                    look(self.step)
        writer.close()
        return read_json(self.folder / "progress.json")["losses"]

    def _update(self, total: Tensor, step: int) -> None:
        if not torch.isfinite(total):
            raise FloatingPointError(f"{self.folder.name}: the loss is {total} at step {step}.")
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.config.learning_rate * rate(step, self.config)
            optimizer.zero_grad(set_to_none=True)
        total.backward()
        nn.utils.clip_grad_norm_(self.parameters.values(), self.config.gradient_clip)
        for optimizer in self.optimizers:
            optimizer.step()
        keep = min(self.config.ema, (1 + step) / (10 + step))
        for name, parameter in self.parameters.items():
            self.average[name].lerp_(parameter.detach(), 1 - keep)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        trained = {name: p.detach().clone() for name, p in self.parameters.items()}
        self.load_average()
        yield
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(trained[name])

    def load_average(self) -> None:
        """Put the moving average into the modules; training is over."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(self.average[name])

    def _save(self, losses: dict[str, float]) -> None:
        tensors = {f"average/{n}": p for n, p in self.average.items()}
        tensors |= {f"weight/{n}": p for n, p in self.parameters.items()}
        for number, optimizer in enumerate(self.optimizers):
            for key, value in flatten_state(optimizer):
                tensors[f"optimizer{number}/{key}"] = value
        progress = {"step": str(self.step), "seconds": str(self.seconds)}
        write_safetensors(self.folder / "checkpoint.safetensors", tensors, progress)
        report = {"step": self.step, "seconds": self.seconds, "losses": losses}
        write_json(self.folder / "progress.json", {**report, "config": asdict(self.config)})

    def _resume(self) -> None:
        path = self.folder / "checkpoint.safetensors"
        if not path.exists():
            return
        tensors = load_file(path)
        with safe_open(path, "pt") as file:
            progress = file.metadata()
        self.step, self.seconds = int(progress["step"]), float(progress["seconds"])
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"weight/{name}"])
                self.average[name].copy_(tensors[f"average/{name}"])
        for number, optimizer in enumerate(self.optimizers):
            prefix = f"optimizer{number}/"
            state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            unflatten_state(optimizer, state)


def rate(step: int, config: LoopConfig) -> float:
    """Learning rate as a share of its peak: warm-up, flat, linear fall."""
    fall = config.decay_share * config.steps
    left = (config.steps - step) / fall if fall else 1.0
    return min((step + 1) / config.warmup, 1.0, left)


def flatten_state(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """`(index/key, tensor)` of an optimizer's state, so that it fits into a safetensors file."""
    for index, state in optimizer.state_dict()["state"].items():
        for key, value in state.items():
            yield f"{index}/{key}", torch.as_tensor(value)


def unflatten_state(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Give an optimizer back the state that `flatten_state` took from it."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split("/")
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def stage_seconds(*folders: Path) -> float:
    """Wall seconds that the stages in these folders took, over all their resumed runs."""
    return sum(read_json(folder / "progress.json")["seconds"] for folder in folders)
