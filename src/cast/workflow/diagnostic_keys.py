"""What the steps of the diagnostics depend on, as `keys` says it for the others."""

from typing import Any

from cast.config import load_backbone_config, studied_backbones
from cast.config.diagnostics import Study
from cast.workflow.digest import code_digest, file_digest, notebook_digest
from cast.workflow.keys import Key, Keys, key_of, weights_digest

CODE: dict[Study, str] = {
    "structure": "cast.diagnostics.structure_formation",
    "saturation": "cast.diagnostics.saturation",
    "heads": "cast.diagnostics.head_sensitivity",
}


def study_key(keys: Keys, study: Study, backbone: str) -> Key:
    """Of one study of one backbone; its seed is in the name of its folder."""
    config, body = keys.config, load_backbone_config(backbone)
    section = config.diagnostics
    models = {"structure": section.clip, "saturation": config.preference.path}
    own = getattr(section, study).model_dump(mode="json", exclude={"seeds"})
    return key_of(
        settings=[config.world, own, section.batch, config.sampling.model_dump(mode="json")],
        backbone=body.model_dump(mode="json", exclude={"window", "noise_level", "licence"}),
        verifier=config.verifier.model_dump(mode="json", exclude={"heatmap"}),
        preference=config.preference.model_dump(mode="json") if study == "saturation" else None,
        weights=[
            weights_digest(path)
            for path in (body.path, config.verifier.path, models.get(study))
            if path is not None
        ],
        prompts=file_digest(section.prompts) if section.prompts else keys.prompts(),
        hard_case=keys.hard_case() if study == "heads" and not section.prompts else None,
        code=code_digest(CODE[study]),
    )


def window_key(keys: Keys, backbone: str) -> Key:
    """Of a backbone's measured window."""
    return key_of(
        study=study_key(keys, "structure", backbone),
        seeds=list(keys.config.diagnostics.structure.seeds),
        low=load_backbone_config(backbone).window.low,
        code=code_digest("cast.diagnostics.structure_formation"),
    )


def figure_key(keys: Keys, study: Study, notebook: str) -> Key:
    """Of the figure that a light notebook makes from a study of all studied backbones."""
    names = studied_backbones(keys.config)
    parts: dict[str, Any] = {name: study_key(keys, study, name) for name in names}
    return key_of(
        studies=parts,
        seeds=list(getattr(keys.config.diagnostics, study).seeds),
        code=code_digest("cast.figures"),
        notebook=notebook_digest(f"notebooks/{notebook}.ipynb"),
    )
