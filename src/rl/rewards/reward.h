// Reward: what an answer is worth, by rule. A pure function of the answer's text and the label of
// its problem: nothing that a model wrote is run, and the time is bounded by the text's length.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace glint {

struct Grade {
  double reward = 0;
  std::string answer = {};  // what was taken for the answer; empty: none was found
  std::string reason = {};  // one sentence on why the reward is what it is
};

class Reward {
 public:
  // By the name that miles and slime have for it (--rm-type):
  //   deepscaler  1 if the last \boxed{} after the last </think> (or after ###Response) equals the
  //               label, as a string or as an expression; else 0
  //   math        the same of the whole text, without asking for </think>
  //   dapo        1 if what follows the last "Answer:" in the last 300 characters is the label;
  //               else -1
  //   f1          harmonic mean of precision and recall of the label's words, from 0 to 1
  //   deterministic_random
  //               0 or 1 by the hash of text and label: to see that nothing is learned from noise
  // With boxed_ before the name, the last \boxed{} is graded instead of the text.
  static Result<Reward> named(std::string_view name);
  static std::vector<std::string> names();

  const std::string& name() const { return name_; }
  Grade grade(std::string_view text, std::string_view label) const;

 private:
  using Rule = Grade (*)(std::string_view text, std::string_view label);
  Reward(std::string name, Rule rule, bool boxed)
      : name_(std::move(name)), rule_(rule), boxed_(boxed) {}

  std::string name_;
  Rule rule_;
  bool boxed_;
};

// Whether two answers are the same: equal in mathd_form(), or element by element in plain_form() or
// as expressions. A fraction that is not reduced, or an expression where the label is an integer,
// is wrong, as in the grader that this follows.
bool same_answer(std::string_view answer, std::string_view label);

}  // namespace glint
