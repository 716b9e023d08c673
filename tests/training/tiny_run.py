"""A whole training run in miniature: real classes, random weights, saved as ordinary folders."""

from pathlib import Path
from typing import Any

import tiny
from tiny_verifier import record, tiny_model, tiny_processor, tiny_tokenizer

from cast.config import (
    MethodConfig,
    PreferenceSection,
    RunConfig,
    SdeSection,
    TrainingSection,
    VerifierSection,
)
from cast.config.arms import WindowSection
from cast.config.sections import LoraSection
from cast.scene_graph import Atom, Entity, PromptRecord, SceneGraph, write_prompts

COLLECTIONS, GROUP, MICRO_BATCH, STEPS = 4, 4, 2, 4


def records(count: int) -> list[PromptRecord]:
    """The verifier's own prompt, and shorter ones in its words."""
    made = [record()]
    for number in ("two", "three"):
        for noun in ("circle", "square"):
            prompt = f"{number} {noun}s"
            graph = SceneGraph((Entity(noun, 2 if number == "two" else 3),))
            start, end = len(number) + 1, len(prompt)
            atoms = (
                Atom("count", f"How many {noun}s are in the image?", number, ((0, end),), (0,)),
                Atom(
                    "object", f"Are there any {noun}s in the image?", "Yes", ((start, end),), (0,)
                ),
            )
            made.append(PromptRecord(prompt, graph, atoms, 2))
    return (made * count)[:count]


def save_models(folder: Path) -> None:
    """Pipeline, verifier and manifest below `folder`."""
    tiny.flux2().save_pretrained(folder / "flux2")
    verifier = folder / "verifier"
    verifier.mkdir()
    tokenizer = tiny_tokenizer(verifier)
    tokenizer.save_pretrained(verifier)
    tiny_model(tokenizer).save_pretrained(verifier)
    tiny_processor().save_pretrained(verifier)
    write_prompts(folder / "manifest.parquet", records(COLLECTIONS))


def run_config(folder: Path, routing: str | None = "atom_map", **changes: Any) -> RunConfig:
    """A run on the models below `folder`; `changes` go to its training section.

    `routing=None` with `keep` and `of` among the changes is SFT, `preference` a model's path G1.
    """
    keep, of = changes.pop("keep", None), changes.pop("of", None)
    preference = changes.pop("preference", None)
    kind: Any = "sft" if keep else "rl"
    chosen: Any = routing
    method = MethodConfig(
        name=routing or "sft",
        title="Tiny",
        kind=kind,
        reward="preference" if preference else "atoms",
        routing=chosen,
        keep=keep,
        of=of,
    )
    settings: dict[str, Any] = {
        "collections": COLLECTIONS,
        "group_size": GROUP,
        "micro_batch": MICRO_BATCH,
        "learning_rate": 1e-2,
        "lora": LoraSection(rank=4, alpha=8.0),
        "checkpoint_every": 1,
        "warmup": 2,
    }
    backbone = tiny.backbone_config("flux2", 4.0).model_copy(
        update={
            "path": str(folder / "flux2"),
            "window": WindowSection(low=0, high=4, steps=STEPS),
        }
    )
    return RunConfig(
        world="smoke",
        backbone=backbone,
        method=method,
        seed=0,
        sampling=tiny.sampling(steps=STEPS),
        sde=SdeSection(noise_level=0.7),
        verifier=VerifierSection(path=str(folder / "verifier")),
        preference=PreferenceSection(path=preference) if preference else None,
        training=TrainingSection(**(settings | changes)),
        manifest=str(folder / "manifest.parquet"),
    )
