#!/usr/bin/env python3
"""Generation and prompts of llama.cpp and of Hearth on one thread, in seconds of processor time.

Processor time, not the clock, so that it can be measured on a machine that is busy; loading is taken away by
running everything twice, with different numbers of tokens. The files are GGUF files in the shape of Llama 3.2 1B
(any weights), named by type:

    bench/compare_llama_cpp.py --hearth build/bin/hearth --llama-bench llama-bench --models folder --types q8_0,q4_0
"""
import argparse
import pathlib
import resource
import statistics
import subprocess


def seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def hearth(options, kind, prompt, tokens):
    command = [options.hearth, "bench", "llm", "--shape", "llama-3.2-1b", "--type", kind, "--threads", "1"]
    return seconds([*command, "--lengths", str(prompt), "-n", str(tokens), "--repeats", "1"]) / 2  # one warms up


def llama_cpp(options, kind, prompt, tokens):
    command = [*options.llama_bench.split(), "-m", str(options.models / f"{kind}.gguf"), "-t", "1", "--no-warmup"]
    return seconds([*command, "-p", str(prompt), "-n", str(tokens), "-r", "1"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hearth", default="build/bin/hearth")
    parser.add_argument("--llama-bench", default="llama-bench", help="command; may have arguments")
    parser.add_argument("--models", type=pathlib.Path, required=True, help="folder, as the command sees it")
    parser.add_argument("--types", default="q8_0,q4_0,q4_k")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| weights | token, Hearth ms | llama.cpp ms | ratio | token of a prompt of 256, Hearth ms | llama.cpp ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    for kind in options.types.split(","):
        times = {}
        for _ in range(options.rounds):  # in turns
            for run in hearth, llama_cpp:
                first = 4 if run is hearth else 0  # Hearth generates after a prompt
                token = (run(options, kind, first, 36) - run(options, kind, first, 4)) / 32
                prompt = (run(options, kind, 256, 1) - run(options, kind, 16, 1)) / 240
                times.setdefault(run, []).append((token * 1e3, prompt * 1e3))
        ours, theirs = ([statistics.median(column) for column in zip(*times[run])] for run in (hearth, llama_cpp))
        cells = [f"{a:.1f} | {b:.1f} | {b / a:.2f}" for a, b in zip(ours, theirs)]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
