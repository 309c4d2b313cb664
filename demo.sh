#!/usr/bin/env bash
# Builds glint (the first time a few minutes) and serves the bundled model on http://127.0.0.1:8000, with a chat page;
# `./demo.sh ARGS` is `glint ARGS`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/tools/build.sh" release glint >&2
glint=$here/build/release/glint
(($#)) && exec "$glint" "$@"
exec "$glint" serve "$here/models/glm5-tiny" --spec mtp:3
