"""The frozen models beside the verifier that judge images: preference and overall quality."""

from typing import Literal

from pydantic import model_validator

from cast.config.model import Section, setting


class PreferenceSection(Section):
    """The preference model (PickScore): the reward of Flow-GRPO (G1), and a study's subject."""

    path: str = setting(
        "models/mini/mini-pickscore", "Local folder or hub id of a CLIP", min_length=1
    )
    processor: str | None = setting(
        None, "Where its tokenizer and image processor lie; null: beside the weights"
    )
    scale: float = setting(26.0, "What its scores are divided by", source="Flow-GRPO", gt=0.0)


class QualitySection(Section):
    """Overall quality by Qwen-Image-Bench's protocol."""

    judge: Literal["mini", "vlm", "none"] = setting(
        "mini",
        "mini: measures the benchmark's own images, without a model, mini world only; vlm: asks a "
        "Qwen3-VL about images of Qwen-Image-Bench's prompts; none: quality isn't judged",
        source="paper 5.2; the judges are ours",
    )
    path: str | None = setting(None, "vlm: local folder or hub id of the Qwen3-VL", min_length=1)
    dtype: Literal["float32", "bfloat16"] = setting("bfloat16", "vlm: number type of its weights")
    prompts: str | None = setting(
        None,
        "vlm: JSONL file of Qwen-Image-Bench's prompts, one object with ID and prompt a line; null "
        "takes the file that CAST_QWEN_IMAGE_BENCH names",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "QualitySection":
        if (self.judge == "vlm") != (self.path is not None):
            raise ValueError("judge vlm needs path, and the others have none")
        if self.judge != "vlm" and self.prompts is not None:
            raise ValueError("prompts are for judge vlm")
        return self
