"""Overall quality of one arm by Qwen-Image-Bench's protocol (paper 5.2): its `quality.parquet`.

Judge `mini` measures the benchmark's own images, which must be there. Judge `vlm` is the real
protocol: it generates images of Qwen-Image-Bench's prompts below `quality/` and asks a Qwen3-VL
the facets of each. Kept apart from scores, so that another judge makes no image and no score anew.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from cast.config import CastConfig, quality_prompts_path
from cast.errors import CastError
from cast.evaluation.folders import BASE, adapter_sha256, arm_folder
from cast.evaluation.generation import IMAGES
from cast.evaluation.making import generate_folder
from cast.evaluation.qwen_image_bench import check_quality, judge_rows
from cast.evaluation.store import ImageStore, Parts, progress_bar
from cast.io import sha256_json, write_parquet
from cast.scene_graph import Entity, PromptRecord, SceneGraph
from cast.training.identity import model_sha256
from cast.verifier.quality_judge import Facet, Judge, prompt_facets
from cast.workflow.digest import code_digest

IMAGES_A_PART = 64
UNPARSED = SceneGraph((Entity("image", 1),))  # free text has no graph, and a graph isn't empty


def judge_arm(config: CastConfig, backbone: str, method: str, seed: int = 0) -> pd.DataFrame:
    """Grades of every image of an arm, one row a facet; writes `quality.parquet`, resumes.

    Columns: `prompt_id`, `prompt`, `generation_seed`, `facet`, `grade` (0, 1, 2, N/A or unread),
    `answer` (where it couldn't be read) and `judge`. Raises `CastError` for judge none, for images
    that aren't there, and for images of another adapter.
    """
    if config.quality.judge == "none":
        raise CastError("quality.judge = none: there is no judge; choose mini or vlm.")
    folder = arm_folder(config, backbone, method, seed)
    adapter = None if method == BASE else folder / "adapter"
    if config.quality.judge == "mini":
        images, facets = _benchmark_images(folder, adapter), None
        place, name = folder, "mini (simulated)"
    else:
        place, name = folder / "quality", str(config.quality.path)
        records, facets = _bench_prompts(quality_prompts_path(config))
        images = generate_folder(config, backbone, adapter, records, config.evaluation.seeds, place)
    grades = judge_images(config, images, place, facets).assign(judge=name)
    check_quality(grades)
    write_parquet(folder / "quality.parquet", grades)
    return grades


def judge_images(
    config: CastConfig,
    images: pd.DataFrame,
    folder: Path,
    facets: dict[str, Sequence[Facet]] | None = None,
) -> pd.DataFrame:
    """Grades of the images of a table that `generate` returned for `folder`.

    `facets` by prompt id; None asks the mini judge's for all.
    """
    judge, known, identity = _load_judge(config)
    store = ImageStore(folder / IMAGES)
    asked = {p: [str(f) for f in own] for p, own in (facets or {}).items()}
    names = images[["prompt_id", "generation_seed", "image_sha256"]].to_numpy().tolist()
    parts = Parts(folder / "parts" / "quality", sha256_json([identity, names, asked]))
    tables = []
    with progress_bar(len(images), "judging", True) as bar:
        for index, first in enumerate(range(0, len(images), IMAGES_A_PART)):
            rows = parts.get(index)
            if rows is None:
                rows = pd.concat(
                    [
                        judge_rows(
                            judge,
                            Image.fromarray(store.get(row["image_sha256"])),
                            row["prompt"],
                            known if facets is None else facets[row["prompt_id"]],
                            {key: row[key] for key in ("prompt_id", "generation_seed")},
                        )
                        for row in images.iloc[first : first + IMAGES_A_PART].to_dict("records")
                    ]
                )
                parts.put(index, rows)
            tables.append(rows)
            bar.update(min(IMAGES_A_PART, len(images) - first))
    parts.drop_others()
    return pd.concat(tables, ignore_index=True)


def _load_judge(config: CastConfig) -> tuple[Judge, Sequence[Facet], dict[str, Any]]:
    """The judge, the facets that it knows (all, for a model), and what its answers depend on."""
    section = config.quality
    if section.judge == "mini":
        from cast.mini.zoo.quality import MINI_FACETS, MiniJudge

        return MiniJudge(), MINI_FACETS, {"code": code_digest("cast.mini.zoo.quality")}
    from cast.verifier.judges import VlmJudge

    path = str(section.path)
    identity = {"weights": model_sha256(path), "dtype": section.dtype}
    identity["code"] = code_digest("cast.verifier.judges")
    return VlmJudge.load(path, section.dtype), (), identity


def _benchmark_images(folder: Path, adapter: Path | None) -> pd.DataFrame:
    path = folder / "images.parquet"
    if not path.is_file():
        raise CastError(f"{path}: there is no such file; evaluate this arm first.")
    images = pd.read_parquet(path)
    now = BASE if adapter is None else adapter_sha256(adapter)
    if set(images["adapter_sha256"]) != {now}:
        raise CastError(f"{path}: its images are of another adapter; evaluate this arm again.")
    return images


def _bench_prompts(path: Path) -> tuple[list[PromptRecord], dict[str, Sequence[Facet]]]:
    """Qwen-Image-Bench's prompts as records without atoms, and the facets that each is asked."""
    records, facets = [], {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            prompt, asked = row["prompt"], prompt_facets(int(row["ID"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CastError(
                f"{path}: line {number}: must be one JSON object with ID (1 to 1000) and prompt "
                f"({type(error).__name__}: {error})."
            ) from error
        records.append(PromptRecord(prompt, UNPARSED, (), 0))
        facets[records[-1].prompt_id] = asked
    return records, facets
