#!/usr/bin/env bash
# Installs what is missing, builds release, and runs every test; arguments go to ctest (`./test.sh -R tokenizer`).
# Tests wait as well as work: one more than there are cores runs at once.
set -euo pipefail
cd "$(dirname "$0")"
tools/build.sh release
ctest --test-dir build/release --output-on-failure -j $(($(nproc) + 1)) "$@"
