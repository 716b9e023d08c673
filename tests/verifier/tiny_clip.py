"""A tiny random CLIP of the real classes, saved as an ordinary folder."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPTokenizer


def save_clip(path: Path, prompts: Sequence[str]) -> Path:
    """Write it into the folder `path`, with a byte-level BPE trained on the prompts."""
    trained = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    trained.train_from_iterator(list(prompts) * 4, trainer)
    trained.save(str(path / "bpe.json"))
    model = json.loads((path / "bpe.json").read_text())["model"]
    vocab = model["vocab"]
    for token in ("<|startoftext|>", "<|endoftext|>"):
        vocab[token] = len(vocab)
    merges: Any = [tuple(pair) for pair in model["merges"]]
    tokenizer = CLIPTokenizer(vocab=vocab, merges=merges)
    tokenizer.save_pretrained(path)
    shared = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    text = {
        "vocab_size": len(tokenizer),
        "num_attention_heads": 2,
        "max_position_embeddings": 16,
        "bos_token_id": vocab["<|startoftext|>"],
        "eos_token_id": vocab["<|endoftext|>"],
    }
    config = CLIPConfig(
        text_config=shared | text,
        vision_config=shared | {"num_attention_heads": 2, "image_size": 32, "patch_size": 8},
        projection_dim=24,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        CLIPModel(config).eval().save_pretrained(path)
    CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    ).save_pretrained(path)

    return path
