"""The loaded models of a run and the group that they make together: generate, score, attend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from cast.config import RunConfig
from cast.flow import Rollout, draw_window_starts, rollout
from cast.rng import torch_generator
from cast.scene_graph import PromptRecord
from cast.training.guards import check_finite
from cast.training.launch import Processes
from cast.training.ledger import CostJournal
from cast.training.run_folder import StopRequest
from cast.training.window import window_range


@runtime_checkable
class Scorer(Protocol):
    """What the trainer asks of a verifier (or of a preference model, with K = 1)."""

    def score(self, images: Any, record: PromptRecord) -> Tensor: ...

    def resolution(self, scores: Tensor) -> Tensor: ...

    def heatmaps(self, images: Any, record: PromptRecord, grid: tuple[int, int]) -> Tensor: ...


@dataclass(frozen=True)
class Group:
    """One prompt's images. `rollout` holds this rank's rows; the rest holds all B.

    Example: 16 images at 64 x 64 in 2 processes: `rollout.latents` [8, 64, 16] for rows 0 to 7
    on rank 0, `images` [16, 3, 64, 64] and `scores` [16, K] on both.
    """

    record: PromptRecord
    conditioning: Any
    rollout: Rollout
    rows: range
    starts: Int64[Tensor, " B"]
    images: UInt8[Tensor, "B 3 H W"]
    scores: Float[Tensor, "B K"]
    resolution: Float[Tensor, " K"]

    @property
    def local_images(self) -> Float[Tensor, "b 3 H W"]:
        """This rank's images."""
        return as_float(self.images, self.rows)


def as_float(images: UInt8[Tensor, "B 3 H W"], rows: range) -> Float[Tensor, "b 3 H W"]:
    """Some rows in [0, 1]: rounded to 8 bits, as a saved PNG is."""
    return images[rows.start : rows.stop].float() / 255.0


@dataclass(frozen=True)
class Workbench:
    """Models, schedule and processes of a run."""

    run: RunConfig
    processes: Processes
    backbone: Any
    scorer: Scorer
    journal: CostJournal
    sigmas: Float[Tensor, " n"]
    records: Sequence[PromptRecord]
    stop: StopRequest

    @property
    def device(self) -> torch.device:
        """Where the backbone's transformer is."""
        return next(self.backbone.transformer.parameters()).device

    @property
    def tokens(self) -> int:
        """Packed latent tokens P of an image."""
        return self.backbone.latent_shape[0]

    @property
    def steps(self) -> int:
        """Steps N of the sampler."""
        return len(self.sigmas) - 1

    def velocity(self, conditioning: Any):
        """The model as `cast.flow` calls it; one prompt, so every row has one conditioning."""

        def call(x: Tensor, sigma: Tensor, _samples: Tensor) -> Tensor:
            self.stop.check()
            return self.backbone.velocity(x, sigma, conditioning)

        return call

    def encode(self, record: PromptRecord) -> Any:
        """The prompt's conditioning for one micro-batch; each prompt is encoded by itself."""
        return self.backbone.encode([record.prompt]).repeat(self.run.training.micro_batch)

    def generate(
        self,
        record: PromptRecord,
        collection: int,
        images: int,
        stochastic: bool,
        purpose: str = "",
    ) -> Group:
        """Sample, decode and score one group of `images` images (paper 4.3).

        `stochastic` draws the window's two SDE transitions for each trajectory; otherwise it is
        the plain ODE. `purpose` names the random streams apart from training's own (preflight).
        """
        rows = self.processes.rows(images, self.run.training.micro_batch)
        conditioning = self.encode(record)
        with self.journal.phase("generation", images, images * self.tokens * self.steps):
            rolled, starts = self._rollout(
                conditioning, collection, rows, images, stochastic, purpose
            )
            pictures = self.processes.gather(self._decode(rolled.latents)).cpu()
        where = f"collection {collection} ({record.prompt!r})"
        check_finite(self.processes.gather(rolled.log_probs), "log_prob", where)
        with self.journal.phase("scoring", images):
            scores = self.scorer.score(as_float(pictures, rows), record).float()
            scores = self.processes.gather(scores).cpu()
        check_finite(scores, "reward", where)
        resolution = self.scorer.resolution(scores).float().cpu()
        return Group(record, conditioning, rolled, rows, starts, pictures, scores, resolution)

    def heatmaps(self, group: Group) -> Float[Tensor, "B K R C"]:
        """Every atom's heatmap for every image of the group (paper 4.2), at the token grid."""
        grid = self.backbone.token_grid
        with self.journal.phase("attention", len(group.images)):
            maps = self.scorer.heatmaps(group.local_images, group.record, grid).float()
            return self.processes.gather(maps).cpu()

    def _rollout(
        self,
        conditioning: Any,
        collection: int,
        rows: range,
        images: int,
        stochastic: bool,
        purpose: str,
    ) -> tuple[Rollout, Int64[Tensor, " B"]]:
        run, seed = self.run, self.run.seed
        index = {
            "distinct": lambda row: row,
            "shared": lambda row: 0,
            "pairs": lambda row: row // 2,
        }[run.training.initial_noise]
        noise = self.backbone.noise(
            [torch_generator(seed, f"{purpose}noise", collection, index(row)) for row in rows]
        ).to(self.device)
        drawn: dict[str, Any] = {}
        starts = torch.zeros(images, dtype=torch.int64)
        if stochastic:
            window = window_range(run)
            length = run.sde.window_length
            starts = draw_window_starts(window, seed, collection, images, run.sde.scope, length)
            shape = (length, *noise.shape[1:])
            streams = [torch_generator(seed, f"{purpose}transition", collection, r) for r in rows]
            drawn = {
                "starts": starts[rows.start : rows.stop],
                "transition_noise": torch.stack([torch.randn(shape, generator=g) for g in streams]),
            }
        rolled = rollout(
            self.velocity(conditioning),
            self.sigmas,
            noise,
            kind=run.sde.kind,
            noise_level=run.sde.noise_level or run.backbone.noise_level,
            micro_batch=run.training.micro_batch,
            **drawn,
        )
        return rolled, starts

    @torch.no_grad()
    def _decode(self, latents: Float[Tensor, "b P C"]) -> UInt8[Tensor, "b 3 H W"]:
        """8-bit images, decoded in micro-batches."""
        parts = [
            (self.backbone.decode(part).clamp(0, 1) * 255.0).round().to(torch.uint8)
            for part in latents.split(self.run.training.micro_batch)
        ]
        return torch.cat(parts)
