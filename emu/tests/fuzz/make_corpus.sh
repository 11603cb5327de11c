#!/bin/sh
# Makes the seeds of the fuzzer again: make_corpus.sh, with clang 19, zstd and python3.
set -eu
cd "$(dirname "$0")"
seeds=corpus/code_object
mkdir -p "$seeds"
compile() {
  clang++-19 -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch="$1" -nogpulib -nogpuinc -O3 \
    -fuse-cuid=none -Xoffload-linker --strip-all seed.hip -o "$seeds/$2"
  chmod 644 "$seeds/$2"
}
compile gfx1100 axpy_gfx1100.co
compile gfx90a:xnack- axpy_gfx90a.co
python3 - "$seeds" <<'PYTHON'
import struct, sys, zlib, subprocess
folder = sys.argv[1]
code = open(f"{folder}/axpy_gfx1100.co", "rb").read()
entries = [(b"host-x86_64-unknown-linux-gnu-", b""), (b"hipv4-amdgcn-amd-amdhsa--gfx1100", code)]
head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))
start = len(head) + sum(24 + len(name) for name, _ in entries)
offset, body = start, b""
for name, data in entries:
    head += struct.pack("<QQQ", offset, len(data), len(name)) + name
    body += data
    offset += len(data)
bundle = head + body
open(f"{folder}/bundle.hipfb", "wb").write(bundle)
deflated = zlib.compress(bundle, 9)
frame = subprocess.run(["zstd", "-19", "-c"], input=bundle, stdout=subprocess.PIPE, check=True).stdout
open(f"{folder}/zlib_v1.hipfb", "wb").write(b"CCOB" + struct.pack("<HHIQ", 1, 0, len(bundle), 0) + deflated)
open(f"{folder}/zstd_v2.hipfb", "wb").write(
    b"CCOB" + struct.pack("<HHIIQ", 2, 1, 24 + len(frame), len(bundle), 0) + frame)
open(f"{folder}/zstd_v3.hipfb", "wb").write(
    b"CCOB" + struct.pack("<HHQQQ", 3, 1, 32 + len(frame), len(bundle), 0) + frame)
PYTHON
ls -l "$seeds"
