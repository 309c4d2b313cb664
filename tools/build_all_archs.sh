#!/usr/bin/env bash
# Compiles the CUDA backend for each architecture that it has code for, or for those that are named, and prints what each
# took: tools/build_all_archs.sh [80 ...]. Needs nvcc and no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(80 89 90a 100 103 120)
printf '%-8s %8s %10s\n' target seconds MiB
for target in "${targets[@]}"; do
  build=build/arch-$target
  began=$SECONDS
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGLINT_DEVICE_ONLY=ON -DGLINT_TESTS=OFF -DGLINT_CUDA=ON \
    -DCMAKE_OPTIMIZE_DEPENDENCIES=ON -DGLINT_CUDA_TARGETS="$target" >/dev/null
  cmake --build "$build" -j "$(nproc)" --target glint_backends_cuda >"$build/build.log" || { tail -40 "$build/build.log"; exit 1; }
  size=$(stat -c %s "$build/src/backends/cuda/libglint_backends_cuda.a")
  printf '%-8s %8d %10.1f\n' "$target" $((SECONDS - began)) "$(awk "BEGIN { print $size / 1048576 }")"
done
