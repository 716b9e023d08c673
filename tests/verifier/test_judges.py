"""The model judge asks through the chat template."""

import torch
from tiny_verifier import random_images

from cast.verifier.images import as_pil
from cast.verifier.judges import VlmJudge
from cast.verifier.quality_judge import find_facet

NOISE = "Quality / Detail / Noise"


def test_model_judge_answers_with_text(parts):
    model, tokenizer, processor = parts
    judge = VlmJudge(model, tokenizer, processor, max_new_tokens=3)
    image = as_pil(random_images(0, 1))[0]
    facet = find_facet(NOISE)
    answer = judge.ask(image, "a star", facet)
    assert isinstance(answer, str) and answer == judge.ask(image, "a star", facet)
    inputs = judge._inputs(image, "a star")
    assert int(inputs["mm_token_type_ids"].sum()) == 16
    assert torch.equal(inputs["attention_mask"], torch.ones_like(inputs["input_ids"]))
