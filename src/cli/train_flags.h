// Flags of miles, slime, Megatron-LM and their SGLang, as far as recipes of GLM-5 use them: what
// each is to `glint train grpo`, to a plan, or why it is nothing here.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace glint {

struct TrainFlag {
  enum class Takes { kNothing, kValue, kValues };
  enum class Does {
    kOption,   // is option `target` of `glint train grpo`; empty: of the same name
    kEach,     // the same, once for each of its values
    kPlan,     // is part of the layout that is planned
    kNothing,  // has no meaning here, because of `target`
    kMust,     // must have this value: `target` is "VALUE: what another would need"
    kPlanned,  // is not built: `target` says what it is
  };

  std::string_view names;  // without dashes in front, blanks between
  Takes takes = Takes::kValue;
  Does does = Does::kNothing;
  std::string_view target = {};
};

std::span<const TrainFlag> train_flags();
// Null: nobody's.
const TrainFlag* find_train_flag(std::string_view name);
// The error for an unknown flag `shown`, with the flags nearest to `name`, of these and `others`.
Error unknown_train_flag(const std::string& shown, std::string_view name,
                         std::vector<std::string> others);

struct TranslatedTrainArgs {
  std::vector<std::string> options;                // for `glint train grpo`
  std::map<std::string, std::string> values;       // of every flag that was given, by its name
  std::map<std::string, std::string> meaningless;  // reason -> the flags, with values
  std::vector<std::string> planned;                // what was asked for and is not built

  // Empty: not given.
  std::string value(const std::string& flag) const;
};

// The last of two flags of one name counts. Fails on a name that is nobody's, with a
// suggestion, and on a value that is missing.
Result<TranslatedTrainArgs> translate_train_args(std::span<const std::string> args);

// Fails if --ref-load is a checkpoint whose config.json, division into files, or samples of weights
// are not those of --hf-checkpoint, which is given: there training begins with the reference model.
Status check_reference(const TranslatedTrainArgs& args, const std::string& hf_hub_cache);

// Takes back what corrects an engine that computes otherwise than the trainer, where none does.
void leave_out_corrections(TranslatedTrainArgs& out);

// For `glint train grpo`, of flags that are not among `values`: as these trainers have them.
std::vector<std::string> default_options(const std::map<std::string, std::string>& values);

// The words of `text` as a shell splits them: blanks between, quotes around.
Result<std::vector<std::string>> split_words(std::string_view text);

}  // namespace glint
