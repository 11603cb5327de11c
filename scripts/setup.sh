#!/usr/bin/env bash
# Installs the distribution packages that building and testing Hearth needs.
# Does nothing, and needs no network, when they are all there.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config git
  libopenblas-dev nlohmann-json3-dev libcli11-dev libfmt-dev zlib1g-dev
  libpcre2-dev libutf8proc-dev
  libgtest-dev libbenchmark-dev
)
# For the emulated AMD GPU: LLVM decodes AMD instructions, clang compiles the kernels of its tests. Where a distribution
# does not have one of these, what needs it is switched off: the first is for `hearth serve`, the last three for the
# Python package.
optional=(
  libcpp-httplib-dev liblzma-dev libllvm19 clang-19 lld-19 llvm-19 libzstd-dev libamdhip64-dev rocm-device-libs python3 python3-venv python3-dev
)

if ! command -v dpkg-query >/dev/null; then
  echo "setup: not a Debian or Ubuntu system; please install by hand: ${packages[*]}" >&2
  exit 0
fi

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]; }
is_known() { [ -n "$(apt-cache --quiet=2 policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([^(].*\)/\1/p')" ]; }

missing=()
for package in "${packages[@]}"; do is_installed "$package" || missing+=("$package"); done
wanted=()
for package in "${optional[@]}"; do is_installed "$package" || { is_known "$package" && wanted+=("$package"); } || true; done
[ ${#missing[@]} -eq 0 ] && [ ${#wanted[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: need root to install packages; run: apt-get install ${missing[*]} ${wanted[*]}" >&2
    [ ${#missing[@]} -eq 0 ] && exit 0
    exit 1
  fi
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
install() { "${as_root[@]}" apt-get install -y -qq --no-install-recommends "$@"; }
"${as_root[@]}" apt-get update -qq
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  install "${missing[@]}"
fi
# Known only now, when the lists were empty before.
wanted=()
for package in "${optional[@]}"; do is_installed "$package" || { is_known "$package" && wanted+=("$package"); } || true; done
if [ ${#wanted[@]} -gt 0 ]; then
  echo "setup: installing ${wanted[*]}"
  install "${wanted[@]}" || echo "setup: could not install ${wanted[*]}; tests of the emulated GPU may be skipped" >&2
fi
