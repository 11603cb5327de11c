#!/usr/bin/env python3
"""Times a GPU's work in PyTorch and in Hearth, one after the other in one run: products, attention, a training step.

Needs PyTorch with a GPU and a built build/bin/hearth-gpu-bench. Prints tables of ratios; --json writes them.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from compare_torch import TransformerBlock


def seconds_of(work, slice=0.01, least_calls=5, rounds=18):
    """Median seconds of one call, measured by events around several, for as long as hearth-gpu-bench takes for its two
    candidates."""
    def timed(calls):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / calls * 1e-3

    for _ in range(3):
        timed(1)
    calls = max(least_calls, int(slice / timed(10)))
    return statistics.median(timed(calls) for _ in range(rounds))


def products():
    for size in (4096, 8192):
        a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
        for name, right in ((f"{size} x {size} x {size}, bf16", b), (f"{size} x {size} x {size}, bf16, b transposed", b.T)):
            yield name, 2 * size ** 3 / seconds_of(lambda: a @ right) * 1e-12


def attention():
    """TFLOP/s of PyTorch's best backend: forward, backward."""
    for batch, length in ((4, 4096), (1, 16384)):
        for features in (64, 128):
            for causal in (False, True):
                q, k, v = (torch.randn(batch, 16, length, features, device="cuda", dtype=torch.bfloat16,
                                       requires_grad=True) for _ in range(3))
                work = 4 * batch * 16 * length ** 2 * features * (0.5 if causal else 1) * 1e-12
                best = {"forward": 0.0, "backward": 0.0}
                for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
                    try:
                        with sdpa_kernel(backend):
                            def forward():
                                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                            y = forward()
                            dy = torch.randn_like(y)
                            best["forward"] = max(best["forward"], work / seconds_of(forward))
                            best["backward"] = max(best["backward"], 2.5 * work / seconds_of(
                                lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)))
                    except RuntimeError:
                        continue
                name = f"attention {batch} x 16 x {length} x {features}{', causal' if causal else ''}"
                for direction, speed in best.items():
                    yield f"{name}, {direction}", speed


class Gpt(nn.Module):
    def __init__(self, vocabulary=50304, context=1024, layers=12, heads=12, features=768):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, features), nn.Embedding(context, features)
        self.blocks = nn.Sequential(*[TransformerBlock(features, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(features)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        scores = self.norm(self.blocks(x)) @ self.tokens.weight.T
        return F.cross_entropy(scores.float().view(-1, scores.shape[-1]), targets.view(-1))


def training_step(compiled, batch=8, length=1024):
    torch.manual_seed(1)
    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens, targets = (torch.randint(0, 50304, (batch, length), device="cuda") for _ in range(2))
    run = torch.compile(model) if compiled else model

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return seconds_of(step)


def hearth_rows(binary, groups):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "bench.json"
        subprocess.run([binary, "--only", ",".join(groups), "--json", out], check=True, stdout=subprocess.DEVNULL)
        return {row["name"]: row["value"] for row in json.loads(out.read_text())["rows"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--binary", default=str(root / "build/bin/hearth-gpu-bench"))
    parser.add_argument("--only", default="gemm,attention,training", help="groups to compare: gemm, attention, training")
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("compare_torch_gpu: PyTorch sees no GPU")
    if not pathlib.Path(arguments.binary).exists():
        sys.exit(f"compare_torch_gpu: {arguments.binary} is not there; run make bench")
    groups = arguments.only.split(",")
    ours = hearth_rows(arguments.binary, groups)
    rows = []

    def add(name, mine, other, unit, ratio):
        rows.append({"name": name, "hearth": mine, "torch": other, "unit": unit, "ratio": ratio})
        print(f"| {name} | {mine:.1f} | {other:.1f} | {unit} | {ratio:.2f} |", flush=True)

    print(f"| what | Hearth | PyTorch {torch.__version__} | unit | ratio |\n|---|---|---|---|---|")
    for group, measure in (("gemm", products), ("attention", attention)):
        for name, speed in measure() if group in groups else ():
            for row in (name, name + ", tuned"):
                if row in ours:
                    add(row, ours[row], speed, "TFLOP/s", ours[row] / speed)
    if "training" in groups:
        mine = next(value for name, value in ours.items() if name.endswith(", step"))
        for compiled in (False, True):
            other = training_step(compiled) * 1e3
            add(f"training step, PyTorch {'compiled' if compiled else 'eager'}", mine, other, "ms", other / mine)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(
            json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
