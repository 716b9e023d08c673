"""The published evaluator's semantics, written plainly and independently of the package.

One `generate` call per probe, batch 1, one new token, softmax over the whole vocabulary, the
first token of every answer variant. Prompt text, variants and token layout are spelled out here
by hand, so that a change in the package's constants shows.
"""

import torch

DIGITS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7"}


def plain_score(model, tokenizer, processor, image, probe: str, answer: str) -> float:
    """Summed probability of the variants' first tokens for one image and one probe."""
    inputs = plain_inputs(
        tokenizer,
        processor,
        image,
        f"{probe} Answer in one word.<|im_end|>\n<|im_start|>assistant\n",
    )
    output = model.generate(
        **inputs,
        max_new_tokens=1,
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
    )
    probabilities = torch.softmax(output.scores[0][0].float(), dim=-1)
    if answer == "Yes":
        variants = ["Yes", "yes", " Yes", " yes"]
    else:
        capital, digit = answer.capitalize(), DIGITS[answer]
        variants = [answer, capital, " " + answer, " " + capital, digit, " " + digit]
    return sum(probabilities[tokenizer.encode(variant)[0]].item() for variant in variants)


def plain_inputs(tokenizer, processor, image, after_image: str) -> dict[str, torch.Tensor]:
    """Model inputs for one image and the text that follows it, batch 1."""
    features = processor(images=[image], return_tensors="pt")
    tokens = int(features["image_grid_thw"].prod()) // processor.merge_size**2
    text = (
        "<|im_start|>user\n<|vision_start|>"
        + "<|image_pad|>" * tokens
        + "<|vision_end|>"
        + after_image
    )
    ids = torch.tensor([tokenizer.encode(text)])
    is_image = (ids == tokenizer.convert_tokens_to_ids("<|image_pad|>")).int()
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": is_image,
        "pixel_values": features["pixel_values"],
        "image_grid_thw": features["image_grid_thw"],
    }
