// A GRPO run as one HTML page: curves, groups that teach nothing, lengths, parity, and what the
// model says to the same prompts as it learns. Opens offline, in light and dark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "rl/grpo_batch.h"

namespace glint {

struct RunPage {
  std::string model = {};
  std::int64_t rounds_done = 0, rounds = 0;
  double seconds_left = 0;  // 0: not known, as where a run begins or goes on
  // Pages that are served: the browser asks again every so many seconds; 0: never.
  int refresh_seconds = 0;
};

// Lines of samples.jsonl: what came in `round` (-1: before the first), from an evaluation or from
// the round itself.
Json sample_line(const AnswerSample& sample, std::int64_t round, bool is_eval);

// Leaves the lines of samples.jsonl that a page of this run, now or later, may show: the newest
// rounds, and evaluations from the first to the last.
void keep_shown_samples(std::vector<Json>& samples);

// `metrics` and `samples` are the lines of metrics.jsonl and samples.jsonl. Long runs are drawn as
// means over some rounds each.
std::string to_html(const RunPage& page, const std::vector<Json>& metrics,
                    const std::vector<Json>& samples);

}  // namespace glint
