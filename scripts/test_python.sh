#!/usr/bin/env bash
# Builds the wheel around the library of a build folder, installs it in a fresh virtual environment and runs the Python
# tests there. Arguments after the folder go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
shift || true
python=${PYTHON:-python3}
folder=$build/python

skip() {
  echo "test_python: $1; the Python package is not tested" >&2
  [ -n "${HEARTH_REQUIRE_PYTHON:-}" ] && exit 1
  exit 0
}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "there is no Python 3.10 or later"
"$python" -m venv --clear "$folder/venv" 2>/dev/null || skip "Python cannot make virtual environments (python3-venv)"
pip() { "$folder/venv/bin/pip" --disable-pip-version-check --quiet "$@"; }
pip install "scikit-build-core>=0.10" "nanobind>=3.0" || skip "the package index cannot be reached"

rm -f "$folder"/*.whl
launcher=$(sed -n 's/^CMAKE_CXX_COMPILER_LAUNCHER:[A-Z]*=//p' "$build/CMakeCache.txt")
pip wheel . --no-build-isolation --no-deps --wheel-dir "$folder" \
  -C build-dir="$folder/cmake" -C cmake.define.HEARTH_PREBUILT="$build" \
  -C cmake.define.CMAKE_CXX_COMPILER_LAUNCHER="$launcher"
wheel=$(ls "$folder"/*.whl)
pip install "$wheel[test]"
HEARTH_EMULATOR=$build/emu/lib HIPEMU_HIPRTC=builtin HEARTH_KERNEL_CACHE=$build/kernel-cache \
  "$folder/venv/bin/python" -m pytest --numprocesses 2 --dist loadfile "$@"
