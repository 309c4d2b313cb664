#!/usr/bin/env bash
# Builds glint (the first time a few minutes) and shows it at work on the bundled model; `./demo.sh ARGS` is `glint ARGS`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/tools/build.sh" release glint >&2
glint=$here/build/release/glint
(($#)) && exec "$glint" "$@"

answer() {  # PROMPT OPTIONS...: prints the prompt, then the answer as it comes
  printf '\n> %s\n' "$1"
  "$glint" generate "$here/models/glm5-tiny" -p "$@" --temperature 0 --max-tokens 160
}
answer "The capital of France is"
answer "Write a short poem about a cat and a dog" --chat
answer "Explain DeepSeek Sparse Attention" --chat
