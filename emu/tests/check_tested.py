"""Every instruction that the corpus of kernels and the sample programs use must be run by a test of single instructions.

Runs the given test programs with HIPEMU_TESTED set, disassembles the given code objects, and lists what is used and not
tested. Ends with 77 (skipped) where there is no llvm-objdump.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile


def base_name(mnemonic):
    mnemonic = re.sub(r"(_e64_dpp|_e32|_e64|_dpp|_sdwa)$", "", mnemonic)
    return re.sub(r"^v_dual_", "v_", mnemonic)


def tested_names(programs):
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "tested")
        for program in programs:
            subprocess.run([program, "--gtest_brief=1"], env={**os.environ, "HIPEMU_TESTED": record}, check=True,
                           stdout=subprocess.DEVNULL)
        with open(record) as file:
            return {base_name(line.strip()) for line in file}


def used_names(objdump, objects):
    names = {}
    for path in objects:
        text = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], check=True, capture_output=True).stdout
        # What lines begin with, and the second halves of those with two instructions. There are a million lines, and
        # patterns with a fixed beginning are found fast.
        words = set(re.findall(rb"\n\t([a-z]+_[a-z0-9_]+)\s", text)) | set(re.findall(rb" :: ([a-z]+_[a-z0-9_]+)\s", text))
        for word in words:
            names.setdefault(base_name(word.decode()), path)
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--objects", required=True, help="folders with code objects, separated by commas")
    arguments = parser.parse_args()
    objdump = shutil.which("llvm-objdump-19") or shutil.which("llvm-objdump")
    objects = [os.path.join(folder, name) for folder in arguments.objects.split(",") if os.path.isdir(folder)
               for name in sorted(os.listdir(folder)) if name.endswith(".co")]
    if objdump is None or not objects:
        print("no llvm-objdump, or no compiled kernels")
        return 77
    used = used_names(objdump, objects)
    missing = sorted(set(used) - tested_names(arguments.tests))
    print(f"{len(used)} instructions used by {len(objects)} code objects, {len(missing)} of them without a test")
    for name in missing:
        print(f"  {name}  ({os.path.basename(used[name])})")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
