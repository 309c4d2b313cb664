#include "cli/train_sizes.h"

#include <algorithm>
#include <utility>

#include "base/option_value.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr int kMostSize = 1024;

// Parts of a plan for GPUs that decide nothing here.
constexpr std::pair<const char*, const char*> kDecidedHere[] = {
    {"rollout-num-gpus-per-engine", "the engine is on the ranks that divide the model"},
    {"sglang-mem-fraction-static", "the engine decides it"},
    {"update-weight-buffer-size", "weights are updated where they lie"},
    {"optimizer-cpu-offload", "masters and moments are always the host's"}};

}  // namespace

Status add_layout(TranslatedTrainArgs& args) {
  const auto size_of = [&](const char* flag, int otherwise) -> Result<int> {
    const auto at = args.values.find(flag);
    if (at == args.values.end()) return otherwise;
    int size = 0;
    if (parse_option(at->second, size) && size >= 1 && size <= kMostSize) return size;
    return invalid(str("--", flag, " is ", quoted(at->second),
                       "; expected a whole number from 1 to ", kMostSize));
  };
  GLINT_TRY(const int etp, size_of("expert-tensor-parallel-size", 1));
  if (etp > 1) args.planned.push_back(str("--expert-tensor-parallel-size ", etp));
  for (const auto& [flag, reason] : kDecidedHere) {
    const auto at = args.values.find(flag);
    if (at != args.values.end()) args.meaningless[reason] += str(" --", flag, " ", at->second);
  }
  GLINT_TRY(const int tp, size_of("tensor-model-parallel-size", 1));
  GLINT_TRY(const int pp, size_of("pipeline-model-parallel-size", 1));
  GLINT_TRY(const int cp, size_of("context-parallel-size", 1));
  GLINT_TRY(const int ep, size_of("expert-model-parallel-size", 1));
  // There a batch has so many tokens of each of the `cp` ranks that share it.
  int tokens = 0;
  if (const auto at = args.values.find("max-tokens-per-gpu");
      at != args.values.end() && parse_option(at->second, tokens)) {
    std::ranges::replace(args.options, "--batch-tokens=" + at->second,
                         str("--batch-tokens=", std::int64_t{tokens} * cp));
  }
  GLINT_TRY(const int nodes, size_of("actor-num-nodes", 1));
  const std::int64_t of_model = std::int64_t{tp} * pp * cp;
  GLINT_TRY(const std::int64_t of_node,
            size_of("actor-num-gpus-per-node",
                    static_cast<int>(std::clamp<std::int64_t>(of_model / nodes, 1, kMostSize))));
  if (nodes * of_node % of_model != 0) {
    return invalid(str("--actor-num-nodes ", nodes, " of ", of_node, " are ", nodes * of_node,
                       " ranks, and tensor, pipeline and context parallel sizes ", tp, ", ", pp,
                       " and ", cp, " need a multiple of ", of_model));
  }
  for (const auto& [name, size] : {std::pair<const char*, std::int64_t>("tp", tp),
                                   {"dp", nodes * of_node / (tp * pp)},
                                   {"cp", cp},
                                   {"ep", ep},
                                   {"pp", pp}}) {
    if (size > 1) args.options.push_back(str("--", name, "=", size));
  }
  if (nodes > 1) args.options.push_back("--ranks=processes");
  return Ok{};
}

void name_sizes(std::span<const std::string> given, TranslatedTrainArgs& args) {
  std::vector<std::string> sizes = {"--actor-num-nodes", "--actor-num-gpus-per-node"};
  for (const auto& [flag, reason] : kDecidedHere) sizes.push_back(str("--", flag));
  for (const std::string& size : sizes) {
    const bool is_given = std::ranges::any_of(given, [&](const std::string& word) {
      return word == size || word.starts_with(size + "=");
    });
    if (is_given) args.meaningless["one process of a CPU trains"] += " " + size;
  }
}

}  // namespace glint
