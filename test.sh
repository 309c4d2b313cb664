#!/usr/bin/env bash
# Installs what is missing, builds release, and runs every test.
set -euo pipefail
cd "$(dirname "$0")"
tools/setup.sh
cmake --preset release >/dev/null
cmake --build --preset release
ctest --test-dir build/release --output-on-failure "$@"
