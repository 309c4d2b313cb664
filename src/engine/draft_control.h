// DraftControl: how many drafts of one sequence are worth verifying, from how many were accepted.
#pragma once

namespace glint {

struct DraftPolicy {
  int max_drafts = 0;
  bool adapt = true;        // false: always max_drafts
  double min_chance = 0.3;  // a draft less likely to be accepted is not worth its row
  int probe_interval = 16;  // steps without drafts after which one draft is tried again
};

class DraftControl {
 public:
  // As many as have each a chance of at least min_chance, if each is accepted independently with
  // the probability measured lately.
  int choose(const DraftPolicy& policy) const {
    if (!policy.adapt) return policy.max_drafts;
    const double chance = accepted_ / (accepted_ + rejected_);
    int count = 0;
    for (double c = chance; count < policy.max_drafts && c >= policy.min_chance; c *= chance)
      ++count;
    const bool probe = steps_without_ >= policy.probe_interval && policy.max_drafts > 0;
    return count == 0 && probe ? 1 : count;
  }

  // A step was planned with so many.
  void planned(int count) { steps_without_ = count > 0 ? 0 : steps_without_ + 1; }

  // Of `drafted` drafts the first `accepted` were right; what follows a wrong one tells nothing.
  void record(int drafted, int accepted) {
    if (drafted == 0) return;
    accepted_ = kMemory * accepted_ + accepted;
    rejected_ = kMemory * rejected_ + (accepted < drafted ? 1 : 0);
  }

 private:
  static constexpr double kMemory = 0.9;  // of each step with drafts: about the last ten count
  double accepted_ = 4, rejected_ = 1;    // before anything is known
  int steps_without_ = 0;
};

}  // namespace glint
