#!/usr/bin/env bash
# Builds glint (the first time a few minutes) and serves the bundled model on http://127.0.0.1:8000, with a chat page;
# `./demo.sh train` lets it learn from rewards, about 20 minutes on two cores, and `./demo.sh ARGS` is `glint ARGS`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
preset=release
# The GPUs that the preset's kernels are for.
[[ $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null) == 9.0* ]] && preset=cuda
"$here/tools/build.sh" "$preset" glint >&2
glint=$here/build/$preset/glint
model=$here/models/glm5-tiny
if [[ $* == train ]]; then
  data=$here/build/rl
  [[ -e $data/train.jsonl ]] || python3 "$here/tools/tinymodel/rl_data.py" --out "$data" --train 20000 >&2
  exec "$glint" train grpo "$model" --prompt-data "$data/train.jsonl" --eval-prompt-data "$data/eval.jsonl" --rm-type deepscaler \
    --num-rollout 320 --rollout-batch-size 42 --n-samples-per-prompt 3 --rollout-max-response-len 160 --rollout-temperature 1.2 \
    --rollout-shuffle --entropy-coef -0.1 --remove-constant-reward-groups --lr 4e-4 --lr-decay-style linear --min-lr 1e-5 --weight-decay 0 \
    --adam-beta1 0.8 --adam-beta2 0.999 --batch-tokens 2048 --eval-interval 320 \
    --n-samples-per-eval-prompt 8 --eval-temperature 1 --save "$here/build/learned" --resume --port 8001
fi
(($#)) && exec "$glint" "$@"
exec "$glint" serve "$model" --spec mtp:3
