#!/usr/bin/env python3
"""Times training steps of three models in PyTorch and in Hearth, in turns, with the same number of threads.

Needs PyTorch (pip install torch) and a built build/bin/hearth-bench. Prints a table of ratios; --json writes them.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F


class BasicBlock(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.added = channels - channels_in

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.added:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.added // 2, self.added // 2))
        return F.relu(y + x)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        blocks, channels = [], 16
        for width, stride in ((16, 1), (32, 2), (64, 2)):
            for i in range(3):
                blocks.append(BasicBlock(channels, width, stride if i == 0 else 1))
                channels = width
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.linear(x.mean((2, 3)))


class TransformerBlock(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.qkv, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
        self.heads = heads

    def forward(self, x):
        n, t, f = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, f // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, f))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary=256, context=128, layers=4, heads=4, features=256):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, features), nn.Embedding(context, features)
        self.blocks = nn.Sequential(*[TransformerBlock(features, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(features)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.norm(self.blocks(x)) @ self.tokens.weight.T


def models():
    yield ("MLP 784-512-512-10, batch 128",
           nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)),
           torch.randn(128, 784), torch.randint(0, 10, (128,)))
    yield "ResNet-20, batch 128", ResNet20(), torch.randn(128, 3, 32, 32), torch.randint(0, 10, (128,))
    yield ("transformer, 4 layers of 256, batch 16 x 128", Gpt(), torch.randint(0, 256, (16, 128)),
           torch.randint(0, 256, (16, 128)))


def torch_step_ms(model, x, target, seconds):
    optimizer = torch.optim.AdamW(model.parameters())
    times = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(times) < 6:
        start = time.perf_counter()
        scores = model(x)
        loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), target.reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[2:])


def hearth_steps_ms(binary, threads):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "bench.json"
        subprocess.run([binary, "--only", "training", "--quick", "--threads", str(threads), "--json", out], check=True,
                       stdout=subprocess.DEVNULL)
        rows = json.loads(out.read_text())["rows"]
    return {row["name"].removesuffix(", step"): row["value"] for row in rows if row["name"].endswith(", step")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--binary", default=str(root / "build/bin/hearth-bench"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="how often each side takes its turn")
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if not pathlib.Path(arguments.binary).exists():
        sys.exit(f"compare_torch: {arguments.binary} is not there; run make build")

    ours, theirs = {}, {}
    for _ in range(arguments.rounds):
        for name, value in hearth_steps_ms(arguments.binary, arguments.threads).items():
            ours.setdefault(name, []).append(value)
        for name, model, x, target in models():
            theirs.setdefault(name, []).append(torch_step_ms(model, x, target, 1.5))
    rows = []
    print(f"| training step | Hearth ms | PyTorch {torch.__version__} ms | ratio |\n|---|---|---|---|")
    for name, values in theirs.items():
        mine, other = statistics.median(ours[name]), statistics.median(values)
        rows.append({"name": name, "hearth_ms": mine, "torch_ms": other, "ratio": other / mine})
        print(f"| {name} | {mine:.2f} | {other:.2f} | {other / mine:.2f} |")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"torch": torch.__version__, "threads": arguments.threads,
                                                            "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
