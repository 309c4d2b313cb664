// DraftControl: how many drafts of one sequence are worth verifying, from how many were accepted.
#pragma once

namespace glint {

class DraftControl {
 public:
  // The number of drafts, at most `max_drafts`, that each have a chance of at least kMinChance, if
  // each is accepted independently with the probability measured lately.
  int choose(int max_drafts) const {
    const double chance = accepted_ / (accepted_ + rejected_);
    int count = 0;
    for (double c = chance; count < max_drafts && c >= kMinChance; c *= chance) ++count;
    const bool probe = steps_without_ >= kProbeInterval && max_drafts > 0;
    return count == 0 && probe ? 1 : count;
  }

  // A step was planned with so many.
  void planned(int count) { steps_without_ = count > 0 ? 0 : steps_without_ + 1; }

  // The first `accepted` of `drafted` drafts were right; those after a wrong one tell nothing.
  void record(int drafted, int accepted) {
    if (drafted == 0) return;
    accepted_ = kMemory * accepted_ + accepted;
    rejected_ = kMemory * rejected_ + (accepted < drafted ? 1 : 0);
  }

 private:
  static constexpr double kMinChance = 0.3;  // a draft less likely right is not worth its row
  static constexpr int kProbeInterval = 16;  // steps without drafts before one is tried again
  static constexpr double kMemory = 0.9;     // of each step with drafts: about the last ten count
  double accepted_ = 4, rejected_ = 1;       // before anything is known
  int steps_without_ = 0;
};

}  // namespace glint
