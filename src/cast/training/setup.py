"""Load what a run needs: prompts, backbone, scorer, schedule."""

from collections.abc import Sequence

from cast.backbones import load_backbone
from cast.config import RunConfig
from cast.errors import CastError
from cast.flow import check_sigmas, check_transition
from cast.paths import from_root
from cast.scene_graph import PromptRecord, read_prompts
from cast.training.launch import Processes
from cast.training.ledger import CostJournal
from cast.training.run_folder import StopRequest
from cast.training.workbench import Scorer, Workbench
from cast.verifier.pickscore import PickScore
from cast.verifier.soft_tifa import Verifier


def load_workbench(
    run: RunConfig,
    processes: Processes,
    journal: CostJournal,
    stop: StopRequest,
    collections: int,
) -> Workbench:
    """Prompts first, then models: cheap faults come before slow loading.

    Raises `CastError` for a manifest that is too short, a missing model or a setting that does
    not fit the schedule.
    """
    records = load_manifest(run, collections)
    check_transition(run.sde.kind, run.sde.noise_level or run.backbone.noise_level)
    backbone = load_backbone(run.backbone, run.sampling, str(processes.device))
    if processes.device.type == "cuda":
        backbone.enable_gradient_checkpointing()
    sigmas = backbone.sigmas(run.sampling.steps)
    check_sigmas(sigmas)
    return Workbench(
        run, processes, backbone, load_scorer(run, processes), journal, sigmas, records, stop
    )


def load_manifest(run: RunConfig, collections: int) -> Sequence[PromptRecord]:
    """The run's prompts, one a collection, in the manifest's order."""
    path = from_root(run.manifest)
    records = read_prompts(path)
    if len(records) < collections:
        raise CastError(
            f"{path}: {len(records)} prompts, and {run.method.name} needs {collections}, one a "
            "collection. Raise prompts.manifest or lower training.collections."
        )
    return records[:collections]


def load_scorer(run: RunConfig, processes: Processes) -> Scorer:
    """The method's reward, scored in the micro-batches that the ranks are made of.

    Reward preference has one score an image, PickScore over `preference.scale` (ours as
    Flow-GRPO (G1)); reward atoms one an atom.
    """
    batch = run.training.micro_batch
    chosen = run.preference
    if chosen is not None:
        return PickScore.load(
            chosen.path, chosen.processor, processes.device, batch=batch, scale=chosen.scale
        )
    return Verifier.load(run.verifier, processes.device, batch=batch)
