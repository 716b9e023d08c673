"""Tokenizers of the zoo: byte-level BPE trained on the closed language of the mini world.

Every word with its leading space becomes one token, as in the big models' tokenizers most common
words do; digits stay single, so `" 3"` is a space and a digit, as in Qwen's.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

from cast.mini.facts import COUNT_WORDS
from cast.scene_graph import load_vocabulary, sample_prompts
from cast.verifier.answer_tokens import (
    CAPTION_INSTRUCTION,
    NEUTRAL_PROMPT,
    accepted_answers,
    question_text,
)

QWEN_SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
QWEN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
Z_IMAGE_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# The system message of the pipeline is left out: it is constant, and 64 pixels need no style.
MISTRAL_TEMPLATE = (
    "<s>{% for message in messages %}{% if message.role == 'user' %}"
    "{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}{% endfor %}</s>"
)

CLIP_LENGTH = 24  # tokens; the longest prompt has 17, and two marks


def corpus() -> Iterator[str]:
    """Prompts, questions and answers of the mini world."""
    yield from ("user", "assistant", CAPTION_INSTRUCTION, NEUTRAL_PROMPT, "no No many Many")
    for word in ("yes", *COUNT_WORDS):
        yield from (f" {variant}" for variant in accepted_answers(word))
        yield from accepted_answers(word)
    for record in sample_prompts(load_vocabulary("shapes"), 0, 400, purpose="tokenizer"):
        yield record.prompt
        yield from (question_text(atom.probe) for atom in record.atoms)
        # A noun may also open a prompt or stand in a question in the other number.
        yield from record.prompt.replace(",", "").split()


def _train(special: Sequence[str], more: Sequence[str] = ()) -> Tokenizer:
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        min_frequency=1,
        special_tokens=list(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    trained.train_from_iterator([*corpus(), *more], trainer)
    return trained


def mistral_tokenizer() -> PreTrainedTokenizerFast:
    """Tokenizer of mini-flux2's text encoder; its chat template writes the prompt alone."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_train(("<pad>", "<s>", "</s>")),
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        padding_side="right",
    )
    tokenizer.chat_template = MISTRAL_TEMPLATE
    return tokenizer


@cache
def clip_tokenizer() -> PreTrainedTokenizerFast:
    """Tokenizer of mini-clip and mini-pickscore: start and end marks, padded with the end's.

    CLIP pools at the first end mark, whatever follows it.
    """
    start, end = "<|startoftext|>", "<|endoftext|>"
    trained = _train((start, end))
    trained.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}", special_tokens=[(start, 0), (end, 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=trained,
        bos_token=start,
        eos_token=end,
        pad_token=end,
        padding_side="right",
        model_max_length=CLIP_LENGTH,
    )


def qwen_tokenizer(more: Sequence[str] = ()) -> Qwen2Tokenizer:
    """The real `Qwen2Tokenizer` class with a small vocabulary and Qwen's special tokens.

    `more` are texts beyond the mini world's whose words are to be single tokens too.
    """
    model = json.loads(_train(QWEN_SPECIAL, more).to_str())["model"]
    merges: Any = [tuple(merge) for merge in model["merges"]]
    tokenizer = Qwen2Tokenizer(vocab=model["vocab"], merges=merges)
    tokenizer.add_special_tokens({"additional_special_tokens": list(QWEN_SPECIAL[1:])})
    tokenizer.chat_template = QWEN_TEMPLATE
    return tokenizer
