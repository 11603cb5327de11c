#!/usr/bin/env python3
"""Writes tests/golden/sampling.json: distributions over tokens after each step of sampling, computed by the
logits processors of transformers in double precision. Penalties by count (frequency, presence), bias and
mirostat, which transformers has not, are written out here with NumPy.
"""
import json
import pathlib

import numpy as np
import torch
from transformers.generation.logits_process import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
                                                    TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper,
                                                    TypicalLogitsWarper)

random = np.random.default_rng(7)


def mirostat(scores, version, surprise):
    order = np.argsort(-scores, kind="stable")
    p = np.exp(scores - scores.max())
    p = (p / p.sum())[order]
    if version == 2:
        count = max(1, int((-np.log2(p) <= surprise).sum()))
    else:
        ranks = np.arange(1, min(100, len(p)))
        t = np.log((ranks + 1) / ranks)
        b = np.log(p[ranks - 1] / p[ranks])
        s = (t * b).sum() / (t * t).sum() if len(t) else 1
        count = ((s - 1) * 2 ** surprise / (1 - len(p) ** -(s - 1))) ** (1 / s) if len(t) else 1
        count = max(1, min(len(p), int(count)))
    result = np.full_like(scores, -np.inf)
    result[order[:count]] = scores[order[:count]]
    return result


def distribution(scores, seen, o):
    ids = torch.tensor([seen[-o.get("penalty_window", 64):]], dtype=torch.long)
    x = torch.tensor(np.float64(np.float32(scores)))[None]  # the runtime has f32
    if "repetition_penalty" in o:
        x = RepetitionPenaltyLogitsProcessor(o["repetition_penalty"])(ids, x)
    x = x[0].numpy().copy()
    for token, count in zip(*np.unique(ids.numpy(), return_counts=True)):
        x[token] -= o.get("frequency_penalty", 0) * count + o.get("presence_penalty", 0)
    for token, bias in o.get("bias", {}).items():
        x[int(token)] += bias
    x = torch.tensor(x)[None]
    x = TemperatureLogitsWarper(float(o["temperature"]))(ids, x)
    if "mirostat" in o:
        x = torch.tensor(mirostat(x[0].numpy(), o["mirostat"], 2 * o["mirostat_target"]))[None]
    if o.get("top_k", 0):
        x = TopKLogitsWarper(o["top_k"])(ids, x)
    if o.get("typical_p", 1) < 1:
        x = TypicalLogitsWarper(o["typical_p"])(ids, x)
    if o.get("top_p", 1) < 1:
        x = TopPLogitsWarper(o["top_p"])(ids, x)
    if o.get("min_p", 0) > 0:
        x = MinPLogitsWarper(o["min_p"])(ids, x)
    p = torch.softmax(x, -1)[0].numpy()
    return [[int(i), float(f"{p[i]:.8g}")] for i in np.argsort(-p, kind="stable") if p[i] > 0]


OPTIONS = [
    {}, {"temperature": 0.3}, {"temperature": 2.5}, {"top_k": 1}, {"top_k": 7}, {"top_k": 10000},
    {"top_p": 0.1}, {"top_p": 0.5}, {"top_p": 0.95}, {"min_p": 0.02}, {"min_p": 0.3}, {"min_p": 0.999},
    {"typical_p": 0.05}, {"typical_p": 0.4}, {"typical_p": 0.95},
    {"repetition_penalty": 1.3}, {"repetition_penalty": 0.7}, {"frequency_penalty": 0.4}, {"presence_penalty": 1.1},
    {"repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": -0.5, "penalty_window": 3},
    {"bias": {"0": 2.5}}, {"bias": {"0": -1e9}},
    {"temperature": 0.8, "top_k": 20, "typical_p": 0.9, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.1},
    {"mirostat": 1, "mirostat_target": 1.0}, {"mirostat": 1, "mirostat_target": 2.5}, {"mirostat": 2, "mirostat_target": 1.0},
    {"mirostat": 2, "mirostat_target": 3.0, "temperature": 1.7},
]

cases = []
for size in (1, 2, 5, 120):
    for options in OPTIONS:
        if size == 1 and "bias" in options and options["bias"]["0"] < -1e6:
            continue
        scores = [round(float(x), 3) for x in random.normal(0, 3, size)]
        seen = [int(x) for x in random.integers(0, size, 8)]
        options = {"temperature": 1.0, **options}
        cases.append({"scores": scores, "seen": seen, "options": options,
                      "expected": distribution(scores, seen, options)})
text = json.dumps(cases)
(pathlib.Path(__file__).parent / "sampling.json").write_text(text + "\n")
