#!/usr/bin/env python3
"""Times a training step of HRM's Sudoku configuration in the reference implementation and in Hearth, in turns.

    git clone https://github.com/sapientinc/HRM
    bench/compare_hrm.py HRM

Needs PyTorch with a GPU, pydantic and a built build/bin/hearth. The reference runs as its training script runs it, with
and without torch.compile; flash-attn is replaced by PyTorch's scaled_dot_product_attention, and the CUDA kernel of
adam-atan2 by PyTorch's fused AdamW, which reads and writes as much.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError:  # --help and the message below need none
    torch = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/golden"))

CONFIG = dict(seq_len=81, vocab_size=11, num_puzzle_identifiers=1, causal=False, H_cycles=2, L_cycles=2, H_layers=4,
              L_layers=4, hidden_size=512, num_heads=8, expansion=4, puzzle_emb_ndim=512, pos_encodings="rope",
              halt_max_steps=16, halt_exploration_prob=0.1)


class Reference:
    def __init__(self, checkout, batch, compiled):
        from make_hrm_golden import import_reference
        Model, LossHead, SignSGD = import_reference(checkout)
        torch.manual_seed(1)
        with torch.device("cuda"):
            self.model = LossHead(Model(dict(CONFIG, batch_size=batch)), "stablemax_cross_entropy")
        puzzles = self.model.model.puzzle_emb
        puzzles.local_weights = puzzles.local_weights.detach().requires_grad_()
        self.run = torch.compile(self.model, dynamic=False) if compiled else self.model
        self.optimizers = [
            SignSGD(puzzles.buffers(), world_size=1, lr=1e-4, weight_decay=1.0),
            torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=1.0, betas=(0.9, 0.95), fused=True)]
        self.batch = {"inputs": torch.randint(1, 11, (batch, 81), device="cuda", dtype=torch.int32),
                      "labels": torch.randint(2, 11, (batch, 81), device="cuda", dtype=torch.int32),
                      "puzzle_identifiers": torch.zeros(batch, device="cuda", dtype=torch.int32)}
        with torch.device("cuda"):
            self.carry = self.model.initial_carry(self.batch)

    def step(self):
        self.carry, loss, _, _, _ = self.run(carry=self.carry, batch=self.batch, return_keys=[])
        (loss / len(self.batch["inputs"])).backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()

    def milliseconds(self, steps):
        for _ in range(3):
            self.step()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / steps * 1e3


def hearth_milliseconds(binary, batch, steps):
    out = subprocess.run([binary, "hrm", "bench", "--batch", str(batch), "--steps", str(steps), "--json"], check=True,
                         stdout=subprocess.PIPE)
    return json.loads(out.stdout)["milliseconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", help="folder of the reference implementation")
    parser.add_argument("--binary", default=str(ROOT / "build/bin/hearth"))
    parser.add_argument("--batch", type=int, default=768)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--eager", action="store_true", help="the reference without torch.compile, too")
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    if torch is None:
        sys.exit("compare_hrm: PyTorch is not installed")
    if not torch.cuda.is_available():
        sys.exit("compare_hrm: PyTorch sees no GPU")
    if not (pathlib.Path(arguments.checkout) / "models/hrm/hrm_act_v1.py").exists():
        sys.exit(f"compare_hrm: {arguments.checkout} is no checkout of the reference implementation")
    if not pathlib.Path(arguments.binary).exists():
        sys.exit(f"compare_hrm: {arguments.binary} is not there; run make")
    reference = {"compiled": Reference(arguments.checkout, arguments.batch, True)}
    if arguments.eager:
        reference["eager"] = Reference(arguments.checkout, arguments.batch, False)
    times = {name: [] for name in ("Hearth", *reference)}
    for _ in range(arguments.rounds):
        times["Hearth"].append(hearth_milliseconds(arguments.binary, arguments.batch, arguments.steps))
        for name, model in reference.items():
            times[name].append(model.milliseconds(arguments.steps))
    medians = {name: statistics.median(values) for name, values in times.items()}
    print("| training step | ms | Hearth is faster by |\n|---|---|---|")
    for name, median in medians.items():
        label = name if name == "Hearth" else f"reference, PyTorch {torch.__version__}, {name}"
        ratio = "" if name == "Hearth" else f"{median / medians['Hearth']:.2f}"
        print(f"| {label} | {median:.1f} | {ratio} |")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(
            {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "batch": arguments.batch,
             "milliseconds": times}, indent=2) + "\n")


if __name__ == "__main__":
    main()
