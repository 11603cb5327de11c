#!/usr/bin/env python3
"""Writes bpe_training.json and llama_training.safetensors: what Hugging Face's tokenizers learns from a text, and
what transformers' Llama computes, with all gradients, for the tests of language model training.

Needs: pip install torch transformers tokenizers safetensors
"""
import json
import pathlib
import random

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

FOLDER = pathlib.Path(__file__).parent
END = "<|endoftext|>"
# The pattern of Llama 3.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def make_documents(count=60):
    """Made-up words by Zipf's law, with all that a pre-tokeniser treats in its own way."""
    random.seed(1)
    syllables = ["ba", "den", "ko", "li", "mur", "na", "po", "ri", "sel", "ta", "ug", "vo", "aaa", "été", "шко", "木"]
    words = ["".join(random.choices(syllables, k=random.randint(1, 4))) for _ in range(400)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    ends = [". ", "! ", "? ", '." ', "...\n", ",  ", ";\t", ".\r\n", ".\n\n", " - ", "'s ", "'LL ", " 🙂 ", " 1234567 ", " x=y+1; "]
    documents = []
    for _ in range(count):
        text = ""
        for word in random.choices(words, weights, k=random.randint(5, 60)):
            text += random.choice([word, word, word, word.capitalize(), word.upper()])
            text += " " if random.random() < 0.8 else random.choice(ends)
        documents.append(text.strip(" \t\r\n"))
    return documents


def make_bpe():
    documents = make_documents()
    result = {"documents": documents, "runs": []}
    for size in (257, 300, 600):
        tokenizer = Tokenizer(models.BPE(ignore_merges=True))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(PATTERN), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=2,
            special_tokens=[END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(documents, trainer)
        learnt = json.loads(tokenizer.to_str())["model"]
        tokens = sorted(learnt["vocab"], key=learnt["vocab"].get)
        samples = [{"text": text, "ids": tokenizer.encode(text).ids} for text in documents[:3]]
        result["runs"].append({"size": size, "tokens": tokens, "merges": learnt["merges"], "samples": samples})
    (FOLDER / "bpe_training.json").write_text(json.dumps(result, ensure_ascii=False))


def make_llama():
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=40,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=16,
            rms_norm_eps=1e-5,
            rope_theta=10000.0,
            tie_word_embeddings=True,
            initializer_range=0.2,
        )
    )
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            parameter.data.uniform_(0.5, 1.5)
    tokens = torch.randint(0, 40, (3, 12))
    targets = torch.randint(0, 40, (3, 12))
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 40), targets.reshape(-1))
    loss.backward()
    tensors = {"tokens": tokens, "targets": targets, "logits": logits.detach(), "loss": loss.detach()}
    for name, parameter in model.named_parameters():
        tensors["weight." + name] = parameter.detach().clone()
        tensors["gradient." + name] = parameter.grad.clone()
    save_file(tensors, FOLDER / "llama_training.safetensors")


make_bpe()
make_llama()
