#!/usr/bin/env bash
# tools/build.sh PRESET [TARGET...]: installs what is missing, configures build/PRESET and builds it (all of it, or TARGETs).
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
for_what=()
[[ $* == glint ]] && for_what+=(program)
[[ $preset == cuda || $preset == package ]] && for_what+=(cuda)
tools/setup.sh "${for_what[@]}"
cmake --preset "$preset" >/dev/null
cmake --build "build/$preset" -j "$(nproc)" ${1:+--target "$@"}
