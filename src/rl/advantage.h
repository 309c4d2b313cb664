// Advantages: from the rewards of a group of answers to one prompt to what each answer's tokens
// count.
#pragma once

#include <span>
#include <vector>

namespace glint {

// Rewards less their mean; with `by_deviation` (GRPO, arXiv 2402.03300) divided by their deviation
// (n - 1 in its denominator) + 1e-6, else as they are (Dr.GRPO, arXiv 2503.20783). All are 0 where
// rewards do not differ, so also in a group of one.
std::vector<double> group_advantages(std::span<const double> rewards, bool by_deviation);

// Whether the group teaches anything: its rewards are more than 1e-8 apart. DAPO's dynamic sampling
// (arXiv 2503.14476) trains on such groups only.
bool rewards_differ(std::span<const double> rewards);

// The chance that at least one of `k` answers is right, drawn without putting back from `n` answers
// of which `right` are (pass@k, arXiv 2107.03374). k from 1 to n.
double pass_rate(int n, int right, int k);

// DAPO's soft punishment of long answers, added to the reward: 0 up to max_tokens - margin, then
// linearly to -penalty at max_tokens. `margin` from 1 to max_tokens.
double overlong_penalty(int num_tokens, int max_tokens, int margin, double penalty);

}  // namespace glint
