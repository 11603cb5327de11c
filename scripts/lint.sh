#!/usr/bin/env bash
# Formatting and static checks. Needs clang-format (and clang-tidy for --tidy), from the distribution.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang-format >/dev/null; then
  echo "lint: clang-format is not installed; run: apt-get install clang-format" >&2
  exit 1
fi
git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run -Werror
echo "lint: formatting is clean"

# Code for one instruction set must not leave symbols that the linker could merge with another's.
# (A pointer to the function that handles exceptions is the same in all of them.)
for library in build/CMakeFiles/hearth_isa_*.dir; do
  [ -d "$library" ] || continue
  weak=$(find "$library" -name '*.o' -exec nm -C --defined-only {} + 2>/dev/null | grep -E ' [WVu] ' | grep -vE 'hearth::cpu::|DW.ref.__gxx_personality_v0' || true)
  if [ -n "$weak" ]; then
    echo "lint: weak symbols in $library:" >&2
    echo "$weak" | head >&2
    exit 1
  fi
done
echo "lint: no mergeable symbols in the vector kernels"

if [ "${1:-}" = --tidy ]; then
  git ls-files 'src/*.cpp' | grep -v '^src/cpu/isa/' | xargs clang-tidy -p build --quiet
fi
