#!/usr/bin/env python3
"""Writes tests/golden/quantised_tables.safetensors: blocks of the formats with tables of numbers, iq4_nl, mxfp4 and iq4_xs, as
quantised.safetensors (make_quantised_golden.c) has them of the others, read by the reference package `gguf`.

It has no quantiser to iq4_nl and iq4_xs; blocks are made here by rounding to nearest with the largest element of 32 as
-127, and in iq4_xs with the largest scale as -32.
"""
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import IQ4_NL, dequantize, quantize
from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).parent
random = np.random.default_rng(3)
x = load_file(HERE / "quantised.safetensors")["x"]


def most_of(numbers):
    return numbers[np.argmax(np.abs(numbers))]


def halves(block, d):
    table = np.array(IQ4_NL.kvalues, np.float32)
    scaled = block / np.float32(d) if d != 0 else block * 0
    q = np.argmin(np.abs(scaled[:, None] - table[None]), axis=1).astype(np.uint8)
    return q[:16] | q[16:] << 4


def plain_iq4_nl(values):
    blocks = []
    for block in values.reshape(-1, 32):
        d = np.float16(most_of(block) / -127)
        blocks.append(np.concatenate([np.frombuffer(d.tobytes(), np.uint8), halves(block, d)]))
    return np.concatenate(blocks)


def plain_iq4_xs(values):
    blocks = []
    for block in values.reshape(-1, 8, 32):
        wanted = np.array([most_of(sub) / -127 for sub in block], np.float32)
        d = np.float16(most_of(wanted) / -32)
        scale = np.clip(np.rint(wanted / np.float32(d)), -32, 31).astype(np.int64)
        stored = scale + 32
        high = np.uint16(sum(int(s >> 4) << 2 * i for i, s in enumerate(stored)))
        low = (stored[::2] & 15 | (stored[1::2] & 15) << 4).astype(np.uint8)
        q = [halves(sub, np.float32(d) * np.float32(s)) for sub, s in zip(block, scale)]
        head = np.frombuffer(d.tobytes() + high.tobytes(), np.uint8)
        blocks.append(np.concatenate([head, low, *q]))
    return np.concatenate(blocks)


tensors = {}


def add(name, kind, blocks, size):
    any_bytes = random.integers(0, 256, (len(blocks) // size, size), dtype=np.uint8)
    if name.startswith("iq4"):
        any_bytes[:, 1] &= 0xbf  # exponents below 2
    else:
        any_bytes[:, 0] = random.integers(90, 160, len(any_bytes))
        any_bytes[:5, 0] = [0, 1, 2, 127, 250]
    for what, data in {"": blocks, "any": any_bytes.reshape(-1)}.items():
        tensors[f"{name}.{what or 'blocks'}"] = data
        tensors[f"{name}.{what + '_' if what else ''}values"] = dequantize(data.reshape(-1, size), kind).reshape(-1)


add("iq4_nl", Type.IQ4_NL, plain_iq4_nl(x), 18)
add("mxfp4", Type.MXFP4, quantize(x, Type.MXFP4).reshape(-1), 17)
add("iq4_xs", Type.IQ4_XS, plain_iq4_xs(x), 136)
save_file(tensors, HERE / "quantised_tables.safetensors")
