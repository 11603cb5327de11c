#!/usr/bin/env python3
"""Writes tests/golden/quantised_perplexity.json: what the formats of llama.cpp do to a real model, as llama.cpp rounds.

    make_quantised_perplexity.py LLAMA_CPP SHARED

LLAMA_CPP: the sources of github.com/ggml-org/llama.cpp. SHARED: the folder with models/tinystories-656K and data/text.

Every matrix of the model is taken as rows of 256 numbers, so that it fits all formats, and goes through blocks of each.
FORMAT.error is the root of the mean square of what that changed, FORMAT.perplexity what the model thus changed makes of the
text, in f32, by transformers: TOKENS from the text's CHARACTERS, in windows of WINDOW tokens, each after the beginning token.
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

CHARACTERS, TOKENS, WINDOW = (100000, 120000), 4096, 256
FORMATS = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_xs", "iq4_nl", "mxfp4"]
# What ggml-quants.c wants of the rest of the library.
REST = """
#include <stdint.h>
#include <stdlib.h>
void ggml_abort(const char* file, int line, const char* format, ...) { abort(); }
size_t ggml_type_size(int type) { abort(); }
const char* ggml_type_name(int type) { abort(); }
size_t ggml_row_size(int type, int64_t n) {  // all that is asked for: by number, bytes of so many elements
  switch (type) {
    case 2: return n / 32 * 18;     case 3: return n / 32 * 20;     case 6: return n / 32 * 22;
    case 7: return n / 32 * 24;     case 8: return n / 32 * 34;     case 10: return n / 256 * 84;
    case 11: return n / 256 * 110;  case 12: return n / 256 * 144;  case 13: return n / 256 * 176;
    case 14: return n / 256 * 210;  case 20: return n / 32 * 18;    case 23: return n / 256 * 136;
    case 39: return n / 32 * 17;
  }
  abort();
}
"""
llama_cpp, shared = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
stories = shared / "models" / "tinystories-656K" / "f32"


def compiled():
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "rest.c").write_text(REST)
    source = llama_cpp / "ggml" / "src"
    subprocess.run(["gcc", "-O2", "-w", "-shared", "-fPIC", "-I", source, "-I", llama_cpp / "ggml" / "include",
                    source / "ggml-quants.c", folder / "rest.c", "-lm", "-o", folder / "quants.so"], check=True)
    return ctypes.CDLL(str(folder / "quants.so"))


library = compiled()


def rounded(matrix, name):
    rows = np.ascontiguousarray(matrix.numpy().reshape(-1, 256))
    blocks = ctypes.create_string_buffer(rows.nbytes)
    pointer = rows.ctypes.data_as(ctypes.c_void_p)
    quantise, read = getattr(library, "quantize_" + name), getattr(library, "dequantize_row_" + name)
    quantise(pointer, blocks, ctypes.c_int64(len(rows)), ctypes.c_int64(256), None)
    result = np.empty_like(rows)
    read(blocks, result.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(rows.size))
    return torch.from_numpy(result.reshape(matrix.shape))


model = AutoModelForCausalLM.from_pretrained(stories, dtype=torch.float32).eval()
if not torch.equal(model.model.embed_tokens.weight, model.lm_head.weight):
    model.model.embed_tokens.weight = model.lm_head.weight  # the file has this one only
matrices = {name: p for name, p in model.named_parameters() if p.dim() == 2}
originals = {name: p.detach().clone() for name, p in matrices.items()}
text = (shared / "data" / "text" / "tinystories_smallgpt.txt").read_bytes()[CHARACTERS[0]:CHARACTERS[1]]
tokens = Tokenizer.from_file(str(stories / "tokenizer.json")).encode(text.decode(), add_special_tokens=False).ids
assert len(tokens) >= TOKENS
windows = torch.tensor(tokens[:TOKENS]).reshape(-1, WINDOW)
begun = torch.cat([torch.ones(len(windows), 1, dtype=torch.long), windows], 1)


@torch.no_grad()
def perplexity():
    scores = model(begun[:, :-1]).logits.double()
    return torch.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), windows.reshape(-1)).exp().item()


result = {"characters": CHARACTERS, "window": WINDOW, "tokens": TOKENS, "perplexity": perplexity(), "formats": {}}
for name in FORMATS:
    squares, count = 0.0, 0
    for parameter in matrices:
        new = rounded(originals[parameter], name)
        squares += (new.double() - originals[parameter].double()).square().sum().item()
        count += new.numel()
        matrices[parameter].data.copy_(new)
    result["formats"][name.lower()] = {"perplexity": perplexity(), "error": (squares / count)**0.5}
out = pathlib.Path(__file__).parent / "quantised_perplexity.json"
out.write_text(json.dumps(result, indent=1) + "\n")
