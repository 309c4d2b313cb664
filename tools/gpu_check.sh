#!/usr/bin/env bash
# Builds the device side on a machine that has a compiler, CMake, ninja and CUDA but none of our packages, and
# compares the CUDA backend with the reference there. Arguments go to gpu_check.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DGLINT_DEVICE_ONLY=ON -DGLINT_TESTS=OFF -DGLINT_CUDA=ON
cmake --build build/gpu
build/gpu/tests/gpu_check/gpu_check "$@"
