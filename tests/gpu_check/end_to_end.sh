#!/usr/bin/env bash
# tests/gpu_check/end_to_end.sh GLINT [MODEL_TEST EXECUTOR_TEST]: the whole program on a GPU, against the CPU of the same
# machine. From the repository's root; needs nothing but the programs, curl and Python's standard library.
set -euo pipefail
glint=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tiny=models/glm5-tiny
failures=0

# NAME COMMAND...: runs it, and says how it went. `set -e` does not act in what it runs: commands of functions return by themselves.
result() {
  local name=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    echo "ok      $name"
  else
    echo "FAILED  $name"
    tail -20 "$work/log"
    failures=$((failures + 1))
  fi
}

same_text() {  # MODEL: greedy continuations by both
  local prompt
  for prompt in "The cat" "Once upon a time" "Question: What is the capital of France?" "12 + 7 ="; do
    for backend in cuda cpu; do
      "$glint" generate "$1" --backend "$backend" --temperature 0 --max-tokens 48 -p "$prompt" >"$work/$backend" || return 1
    done
    cmp "$work/cuda" "$work/cpu" || return 1
  done
}

perplexity() { "$glint" score "$1" --backend "$2" --ids models/record/heldout.ids.txt --ppl 2>/dev/null; }

same_chunks() {  # many rows, whose branches run beside each other, and few
  local chunk
  for chunk in 64 1024; do
    "$glint" score "$1" --backend cuda --ids models/record/heldout.ids.txt --chunk $chunk --ppl >"$work/$chunk" || return 1
  done
  cmp "$work/64" "$work/1024"
}

same_gradients() {  # DTYPE LIMIT
  local backend
  rm -f "$work"/*.safetensors
  head -2 models/record/heldout.ids.txt >"$work/ids.txt" || return 1
  for backend in cpu cuda; do
    "$glint" train gradients $tiny --backend "$backend" --dtype "$1" --mtp-loss 0.3 --ids "$work/ids.txt" --out "$work/$backend.safetensors" || return 1
  done
  python3 tests/gpu_check/compare_gradients.py "$work/cpu.safetensors" "$work/cuda.safetensors" "$2"
}

learn() {  # two rounds, whose log-probabilities training verifies
  "$glint" train grpo $tiny --backend cuda --prompt-data models/rl/train.jsonl --rm-type deepscaler --num-rollout 2 \
    --rollout-batch-size 8 --n-samples-per-prompt 8 --rollout-max-response-len 128 --lr 1e-5 --save "$work/grpo"
}

for program in "${@:2}"; do
  result "$(basename "$program") on the GPU" "$program" --gtest_brief=1
done
result "every op conforms" "$glint" selftest --backend cuda --no-timing
"$glint" quantize $tiny "$work/fp8" --format fp8 >/dev/null 2>&1
"$glint" quantize $tiny "$work/nvfp4" --format nvfp4 >/dev/null 2>&1
for model in $tiny "$work/fp8" "$work/nvfp4"; do
  result "$(basename "$model"): greedy text of GPU and CPU" same_text "$model"
  result "$(basename "$model"): the same in chunks of 64 and 1,024" same_chunks "$model"
  echo "        perplexity on the GPU: $(perplexity "$model" cuda | tr -s ' \n' ' ')"
  echo "                on the CPU: $(perplexity "$model" cpu | tr -s ' \n' ' ')"
done
result "generate with drafts" "$glint" generate $tiny --backend cuda --spec mtp:3 --temperature 0 --max-tokens 64 -p "The cat"
result "eval: BF16 against f32" "$glint" eval $tiny --backend cuda --ref $tiny --ref-dtype f32 --ids models/record/heldout.ids.txt
tail -14 "$work/log"
result "gradients in f32 are the CPU's" same_gradients f32 1e-5
tail -1 "$work/log"
result "gradients in bf16 are near the CPU's" same_gradients bf16 0.05
tail -1 "$work/log"
result "two rounds of GRPO" learn
grep parity "$work/log" || true
head -4 models/rl/eval.jsonl | sed 's/"prompt"/"messages"/' >"$work/prompts.jsonl"
result "calibrate" "$glint" calibrate $tiny --backend cuda --prompts "$work/prompts.jsonl" --out "$work/ranges.json"
result "serve: guides, log-probabilities, grammars, tools" python3 tests/server/tiny_test.py "$glint" $tiny
result "serve with drafts" python3 tests/server/tiny_test.py "$glint" $tiny --spec mtp:2
result "soak, a minute" python3 tests/soak/run --minutes 1 --glint "$glint"
tail -3 "$work/log"
exit $((failures > 0))
