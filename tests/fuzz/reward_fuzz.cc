// Rewards: any text and label get a grade, twice the same; and an answer without
// braces, commands and marks gets the full one where it is the label.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/str.h"
#include "base/utf8.h"
#include "rl/rewards/reward.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace glint;
  const std::string input = lossy_utf8({reinterpret_cast<const char*>(data), size});
  const std::size_t cut = std::min(input.find('\n'), input.size());
  const std::string label = input.substr(0, cut);
  const std::string text = input.substr(std::min(cut + 1, input.size()));
  for (const std::string& name : Reward::names()) {
    for (const char* prefix : {"", "boxed_"}) {
      const Reward reward = Reward::named(prefix + name).value();
      const double once = reward.grade(text, label).reward;
      GLINT_CHECK(once >= -1 && once <= 1, "a reward out of range");
      GLINT_CHECK(once == reward.grade(text, label).reward, "two grades of one text");
    }
  }
  if (!label.empty() && label.find_first_of("{}\\<#") == label.npos) {
    const std::string boxed = str("</think>\\boxed{", label, "}");
    GLINT_CHECK(Reward::named("deepscaler").value().grade(boxed, label).reward == 1,
                "the label itself is wrong");
  }
  return 0;
}
