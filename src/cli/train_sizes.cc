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

Result<int> whole_number(const TranslatedTrainArgs& args, const std::string& flag, int otherwise,
                         int most) {
  const std::string text = args.value(flag);
  int number = 0;
  if (text.empty()) return otherwise;
  if (parse_option(text, number) && number >= 1 && number <= most) return number;
  return invalid(
      str("--", flag, " is ", quoted(text), "; expected a whole number from 1 to ", most));
}

Result<TrainPlanOptions> read_sizes(const TranslatedTrainArgs& args) {
  TrainPlanOptions sizes;
  TrainLayout& l = sizes.layout;
  for (const auto& [flag, size] : {std::pair("tensor-model-parallel-size", &l.tp),
                                   {"pipeline-model-parallel-size", &l.pp},
                                   {"context-parallel-size", &l.cp},
                                   {"expert-model-parallel-size", &l.ep},
                                   {"expert-tensor-parallel-size", &l.etp}}) {
    GLINT_TRY(*size, whole_number(args, flag, 1, kMostSize));
  }
  GLINT_TRY(const int nodes, whole_number(args, "actor-num-nodes", 1, kMostSize));
  const int of_node = std::clamp(l.of_model() / nodes, 1, kMostSize);
  GLINT_TRY(sizes.gpus_per_node, whole_number(args, "actor-num-gpus-per-node", of_node, kMostSize));
  l.gpus = nodes * sizes.gpus_per_node;
  return sizes;
}

Status divide_among_ranks(const TrainPlanOptions& sizes, TranslatedTrainArgs& args) {
  const TrainLayout& l = sizes.layout;
  if (l.etp > 1) args.planned.push_back(str("--expert-tensor-parallel-size ", l.etp));
  for (const auto& [flag, reason] : kDecidedHere) {
    if (!args.planned.empty()) break;  // what is not built is planned by them
    const std::string value = args.value(flag);
    if (!value.empty()) args.meaningless[reason] += str(" --", flag, " ", value);
  }
  // There a batch has so many tokens of each of the `cp` ranks that share it.
  int tokens = 0;
  if (const std::string value = args.value("max-tokens-per-gpu"); parse_option(value, tokens)) {
    std::ranges::replace(args.options, "--batch-tokens=" + value,
                         str("--batch-tokens=", std::int64_t{tokens} * l.cp));
  }
  const int nodes = l.gpus / sizes.gpus_per_node;
  if (l.gpus % l.of_model() != 0) {
    return invalid(str("--actor-num-nodes ", nodes, " of ", sizes.gpus_per_node, " are ", l.gpus,
                       " ranks, and tensor, pipeline and context parallel sizes ", l.tp, ", ", l.pp,
                       " and ", l.cp, " need a multiple of ", l.of_model()));
  }
  const MeshShape shape = l.shape();
  for (const auto& [name, size] :
       {std::pair("tp", shape.tp), std::pair("dp", shape.dp), std::pair("cp", shape.cp),
        std::pair("ep", shape.ep), std::pair("pp", shape.pp)}) {
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
