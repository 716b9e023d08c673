"""The frozen vision-language verifier (paper 4.2): scores per atom, and where it looks.

    from cast.verifier import Verifier
    verifier = Verifier.load(config.verifier)
    scores = verifier.score(images, record)                  # [B, K]
    maps = verifier.heatmaps(images, record, grid=(8, 8))    # [B, K, 8, 8], mean 1

The prompt format is here too: `question_text`, `caption_text`, `NEUTRAL_PROMPT`,
`accepted_answers`. For other people's images: `python -m cast.verifier score --help`.
"""

from cast.verifier.answer_tokens import (
    CAPTION_INSTRUCTION,
    NEUTRAL_PROMPT,
    accepted_answers,
    caption_messages,
    caption_text,
    question_messages,
    question_text,
)
from cast.verifier.soft_tifa import Verifier

__all__ = [
    "CAPTION_INSTRUCTION",
    "NEUTRAL_PROMPT",
    "Verifier",
    "accepted_answers",
    "caption_messages",
    "caption_text",
    "question_messages",
    "question_text",
]
