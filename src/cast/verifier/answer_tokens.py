"""What the verifier is asked, and which answers count: the whole prompt format in one place.

Questions follow the published GenEval 2 evaluator: the image first, then the probe with a
one-word instruction, as one user turn of the model's own chat template. The heatmap pass is a
teacher-forced caption: the same image, `CAPTION_INSTRUCTION`, and the prompt itself as the
assistant's reply. A verifier is trained, scored and read with exactly these strings.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cast.errors import CastError, nearest

AnswerMode = Literal["official", "strict"]

QUESTION_SUFFIX = " Answer in one word."
"""What the evaluator appends to every probe."""

CAPTION_INSTRUCTION = "Describe the image."
"""User text of the heatmap pass (ours: the summary doesn't give the paper's)."""

NEUTRAL_PROMPT = "an image"
"""The caption whose attention map is the baseline; it names nothing, so it shows the sinks."""

COUNT_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)


def question_text(probe: str) -> str:
    """User text of a scoring turn, e.g. `Is the pig green? Answer in one word.`"""
    return probe + QUESTION_SUFFIX


def caption_text(prompt: str) -> str:
    """The assistant's teacher-forced reply in the heatmap pass: the prompt, unchanged.

    Character spans of atoms (`Atom.spans`) therefore index this text directly.
    """
    return prompt


def question_messages(probe: str) -> list[dict[str, Any]]:
    """Chat messages of one probe, to be rendered with `add_generation_prompt=True`."""
    return [_user_turn(question_text(probe))]


def caption_messages(prompt: str) -> list[dict[str, Any]]:
    """Chat messages of the heatmap pass: one user turn and the prompt as the assistant's reply."""
    reply = [{"type": "text", "text": caption_text(prompt)}]
    return [_user_turn(CAPTION_INSTRUCTION), {"role": "assistant", "content": reply}]


def _user_turn(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}


def accepted_answers(answer: str, mode: AnswerMode = "strict") -> tuple[str, ...]:
    """Spelled variants of a probe's answer, in the published evaluator's order.

    `Yes` has four (case, leading space); a count word has those four and its digit with and
    without a leading space. Both modes spell alike; they differ in `answer_tokens`, which turns
    the variants into token ids. `CastError` for an answer the evaluator has no variants for.
    """
    word = answer.strip().lower()
    known = ("yes", *COUNT_WORDS)
    if word not in known:
        raise CastError(
            f"answer: {answer!r} has no accepted variants; allowed: {', '.join(known)}."
            + nearest(word, known)
        )
    capital = word.capitalize()
    if word == "yes":
        return (capital, word, f" {capital}", f" {word}")
    digit = str(COUNT_WORDS.index(word))
    return (word, capital, f" {word}", f" {capital}", digit, f" {digit}")


@dataclass(frozen=True)
class AnswerTokens:
    """Token ids whose probabilities are summed; a repeated id is summed as often as it stands."""

    answer: str
    mode: AnswerMode
    ids: tuple[int, ...]


def answer_tokens(
    answer: str, mode: AnswerMode, encode: Callable[[str], Sequence[int]]
) -> AnswerTokens:
    """Accepted first tokens of `answer` under a tokenizer's `encode` (no special tokens).

    `official`: the first token of every variant, repeats included. That is the published
    evaluator to the last digit, with its quirk: where `" 3"` encodes to a space and a digit, it
    adds P(space) to a count probe. `strict`: variants that are one token, each id once, so
    nothing but the answer is counted. `CastError` when no variant is one token.
    """
    encoded = [tuple(encode(variant)) for variant in accepted_answers(answer, mode)]
    if mode == "official":
        ids = tuple(tokens[0] for tokens in encoded if tokens)
    else:
        ids = tuple(dict.fromkeys(tokens[0] for tokens in encoded if len(tokens) == 1))
    if not ids:
        raise CastError(
            f"answer: {answer!r} has no single-token variant in this tokenizer; use "
            "`answers: official`, or a tokenizer that holds one of "
            f"{list(accepted_answers(answer, mode))}."
        )
    return AnswerTokens(answer, mode, ids)
