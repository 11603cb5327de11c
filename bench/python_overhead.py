"""What Python costs: a call of a small operation, and the import. PyTorch in the same run is the yardstick where it is there.

    PYTHONPATH=python python bench/python_overhead.py
"""

import argparse
import json
import subprocess
import sys
import time


def best_of(function, calls, rounds=200):
    """Microseconds per call, of the best round. Rounds are short, so that one is not disturbed."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best * 1e6


def import_milliseconds(module, rounds=7):
    """Of a fresh interpreter, less what the interpreter itself takes to start."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    times = [float(subprocess.check_output([sys.executable, "-c", code], stderr=subprocess.DEVNULL)) for _ in range(rounds)]
    return min(times) * 1e3


def measure_hearth():
    import hearth as ht

    a, b, m = ht.randn(4), ht.randn(4), ht.randn(4, 4)
    ht.eval(a, b, m)
    compiled = ht.compile(lambda x, y: x + y)

    def chain():
        x = a
        for _ in range(100):
            x = x + b
        x.eval()

    with ht.no_grad():
        return {
            "a + b": best_of(lambda: a + b, 1000),
            "a * 2.0": best_of(lambda: a * 2.0, 1000),
            "exp(a)": best_of(lambda: ht.exp(a), 1000),
            "m @ m": best_of(lambda: m @ m, 1000),
            "a + b, computed": best_of(lambda: (a + b).eval(), 500),
            "100 additions, computed, each": best_of(chain, 10) / 100,
            "compiled a + b, computed": best_of(lambda: compiled(a, b), 500),
            "import (ms)": import_milliseconds("hearth"),
        }


def measure_torch():
    import torch

    torch.set_num_threads(1)
    a, b, m = torch.randn(4), torch.randn(4), torch.randn(4, 4)

    def chain():
        x = a
        for _ in range(100):
            x = x + b

    with torch.no_grad():
        add = best_of(lambda: a + b, 1000)
        return {
            "a + b": add,
            "a * 2.0": best_of(lambda: a * 2.0, 1000),
            "exp(a)": best_of(lambda: torch.exp(a), 1000),
            "m @ m": best_of(lambda: m @ m, 1000),
            "a + b, computed": add,
            "100 additions, computed, each": best_of(chain, 10) / 100,
            "compiled a + b, computed": None,
            "import (ms)": import_milliseconds("torch", 3),
        }


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--json", help="also write the figures to this file")
options = parser.parse_args()
ours = measure_hearth()
try:
    theirs = measure_torch()
except ImportError:
    theirs = {}
print(f"{'microseconds per call':32}{'Hearth':>10}{'PyTorch':>10}")
for name, value in ours.items():
    other = theirs.get(name)
    print(f"{name:32}{value:10.2f}{other:10.2f}" if other is not None else f"{name:32}{value:10.2f}{'-':>10}")
if options.json:
    with open(options.json, "w") as file:
        json.dump({"hearth": ours, "torch": theirs}, file, indent=2)
