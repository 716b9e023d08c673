"""`python -m cast.mini.zoo NAME`: train one model of the zoo from nothing, or go on with it.

Checkpoints, losses and cached latents lie in `results/zoo/NAME`; the finished model goes to
`models/mini/NAME` and its measurements into the manifest beside it.
"""

import argparse
from pathlib import Path

import torch

from cast.config import VerifierSection
from cast.mini.zoo import clip, export, generators, lessons, measure, pickscore, vlm
from cast.mini.zoo.loop import stage_seconds
from cast.paths import from_root
from cast.verifier.soft_tifa import Verifier

SCENES = 500  # held-out scenes on which a verifier is measured


def train_qwen3_vl(work: Path, target: Path) -> None:
    """Five lessons, measured on held-out scenes."""
    stage = vlm.Stage()
    lessons.train_vision(stage, work / "vision")
    lessons.train_answers(stage, work / "answers")
    lessons.train_binding(stage, work / "binding")
    lessons.train_comparing(stage, work / "comparing")
    losses = lessons.train_places(stage, work / "places")
    vlm.save(stage, target)
    verifier = Verifier.load(VerifierSection(path=str(target)))
    accuracy = measure.verifier_accuracy(verifier, SCENES)
    metrics = {**losses, "accuracy on held-out scenes": accuracy}
    stages = {
        "vision": lessons.VISION,
        "answers": lessons.ANSWERS,
        "binding": lessons.BINDING,
        "comparing": lessons.COMPARING,
        "places": lessons.PLACES,
    }
    seconds = stage_seconds(*(work / name for name in stages))
    export.enter(target, stages, seconds, metrics, export.parameters(stage.model))


RECIPES = {
    **generators.RECIPES,
    "mini-qwen3-vl": train_qwen3_vl,
    "mini-clip": clip.make,
    "mini-pickscore": pickscore.make,
}


def main() -> None:
    """Parse the model's name and train it."""
    parser = argparse.ArgumentParser(prog="python -m cast.mini.zoo", description=__doc__)
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("--work", type=Path, default=from_root("results/zoo"))
    parser.add_argument("--target", type=Path, default=from_root("models/mini"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    RECIPES[arguments.name](arguments.work / arguments.name, arguments.target / arguments.name)


if __name__ == "__main__":
    main()
