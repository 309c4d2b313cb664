// glint train reward: what an answer is worth, and why.
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "rl/rewards/reward.h"

namespace glint {
namespace {

struct Options {
  std::string rm_type;
  std::optional<std::string> label, text;  // may be empty
  std::string file;
  bool json = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Answer");
    v("text=TEXT", text, "what the model said, its thinking included");
    v("file=FILE", file, "a file with it instead");
    v("label=TEXT", label, "the answer that is right");
    v.section("Reward");
    v("rm-type=NAME", rm_type,
      "deepscaler, math, dapo, f1 or deterministic_random; each also with boxed_ before it");
    v("json", json, "print one JSON object");
  }
};

Status run(const Options& options, Cli& cli) {
  if (options.rm_type.empty()) return invalid("give a reward: --rm-type deepscaler");
  if (!options.label) return invalid("give the answer that is right: --label TEXT");
  if (options.text.has_value() == !options.file.empty()) {
    return invalid("give either --text TEXT or --file FILE");
  }
  GLINT_TRY(const Reward reward, Reward::named(options.rm_type));
  std::string text = options.text.value_or("");
  if (!options.file.empty()) {
    GLINT_TRY(text, read_file(options.file, std::size_t{64} << 20));
  }
  const Grade grade = reward.grade(lossy_utf8(text), lossy_utf8(*options.label));
  const Json object =
      Json::Object{{"reward", grade.reward}, {"answer", grade.answer}, {"reason", grade.reason}};
  cli.console.print(options.json ? dump_json(object) + "\n"
                                 : str(format_double(grade.reward), ": ", grade.reason, "\n"));
  return Ok{};
}

}  // namespace

Command train_reward_command() {
  return make_command<Options>(
      {.name = "train reward",
       .group = "Training",
       .summary = "what an answer is worth to `glint train grpo`, and why",
       .description =
           "Grades one answer by the rule that a training would use. The rules are those of miles "
           "and slime, with their corner cases; nothing that the model wrote is run.",
       .examples = {{"glint train reward --rm-type deepscaler --label 34 --text "
                     "'2 * 17</think>Answer: \\boxed{34}'",
                     "1: the answer equals the label"},
                    {"glint train reward --rm-type dapo --label 34 --file answer.txt",
                     "of a file"}}},
      run);
}

}  // namespace glint
