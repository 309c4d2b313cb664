#!/usr/bin/env bash
# Checks what a program can check in seconds: format, layers, sizes, of the tree too, forbidden words, CMake lists, tables of numbers, shell syntax.
#   tools/lint.sh         check
#   tools/lint.sh --fix   format the sources first
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0

mapfile -t sources < <(find src tests examples \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) | sort)
if [[ ${1:-} == --fix ]]; then
  printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 16 clang-format-14 -i
fi
unformatted=$(printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 16 clang-format-14 --dry-run 2>&1 |
  sed -n 's/^\([^ :]\+\):.*clang-format-violations.*/\1: not formatted (tools\/lint.sh --fix)/p' | sort -u)
if [[ -n $unformatted ]]; then
  echo "$unformatted"
  failed=1
fi

python3 tools/check_layers.py || failed=1
python3 tools/check_style.py || failed=1
python3 tools/bench_tables.py --check || failed=1
# The tree and a program with its libraries are carried to bare GPU machines, 64 MiB in all.
tracked=$(git ls-files -z | xargs -0 stat -c %s 2>/dev/null | awk '{bytes += $1} END {print bytes}') || true
if ((tracked > 57 << 20)); then
  echo "tracked files are $((tracked >> 10)) KiB, more than $((57 << 10)): leave out what a test can make"
  failed=1
fi
for script in demo.sh test.sh .ci/run tools/*.sh examples/*.sh; do
  bash -n "$script" || failed=1
done

((failed)) || echo "lint: clean"
exit "$failed"
