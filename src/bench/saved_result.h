// A measurement out of what `glint bench serve` (--save-result, --output-file), `vllm bench serve
// --save-result` or `sglang.bench_serving` wrote.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "bench/results.h"

namespace glint {

// The file's figures, and zeros for the rest: a Distribution that it leaves out has count 0, and
// records are there only if it was saved with every request (--save-detailed, with its
// start_times). Fails if it is no such result.
Result<Measurement> read_saved_result(const Json& json);

}  // namespace glint
