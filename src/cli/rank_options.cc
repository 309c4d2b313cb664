#include "cli/rank_options.h"

#include <algorithm>

#include "base/str.h"
#include "cli/backends.h"

namespace glint {

Result<FittedShape> fit_shape(const RankOptions& options, const ModelConfig& config, int threads) {
  MeshShape shape = {.tp = options.tp, .reduce_slices = options.reduce_slices};
  GLINT_TRY_STATUS(check_shape({.tp = options.tp}));
  const auto carried = [&](int most) {
    for (shape.tp = most; shape.tp > 1 && !plan_shard(config, shape, 0).ok();) --shape.tp;
    return shape.tp;
  };
  const int by_model = carried(options.tp);
  const int tp = carried(std::min(by_model, std::max(threads, 1)));
  GLINT_TRY_STATUS(plan_shard(config, shape, 0));
  FittedShape fitted = {.shape = shape, .here = tp};
  if (tp < options.tp) {
    const int heads = config.num_attention_heads;
    fitted.note =
        str("tp ", options.tp, " -> ", tp, ": ",
            tp < by_model
                ? str("there ", threads == 1 ? "is 1 thread" : str("are ", threads, " threads"))
            : heads % options.tp != 0
                ? str("the checkpoint has ", heads, " heads")
                : str("the checkpoint's matrices, or --reduce-slices, divide no further"));
  }
  return fitted;
}

Status check_ranks(const MeshShape& shape, const RunOptions& options,
                   const ModelOptions& resolved) {
  if (resolved.dummy && shape.num_ranks() > 1) {
    return invalid(
        "synthetic weights are made whole, on every rank; leave --tp, --cp, --ep, --dp and --pp "
        "out");
  }
  const bool adds_up = shape.num_ranks() > 1 || shape.num_slices() > 1;
  if (adds_up && resolve_backend(options.backend) == "cuda") {
    return Error{ErrorCode::kUnsupported,
                 "ranks and slices are added up in the host's memory; leave them out, or run them "
                 "with --backend cpu"};
  }
  return Ok{};
}

Result<std::unique_ptr<Ranks>> load_ranks(const MeshShape& shape, const RunOptions& options,
                                          const ModelOptions& resolved, Cli& cli,
                                          const WrapOps& wrap) {
  GLINT_TRY_STATUS(check_shape(shape));
  GLINT_TRY_STATUS(check_ranks(shape, options, resolved));
  RunOptions each = options;
  each.threads = std::max(resolved.threads / shape.num_ranks(), 1);
  auto ranks = std::make_unique<Ranks>(shape);
  for (int rank = 0; rank < ranks->size(); ++rank) {
    ModelOptions one = resolved;
    one.threads = each.threads;
    one.shape = shape;
    one.rank = rank;
    one.mesh = ranks->mesh(rank);
    GLINT_TRY(std::unique_ptr<Ops> ops, make_backend(each, cli));
    if (wrap) ops = wrap(std::move(ops));
    GLINT_TRY(std::unique_ptr<LoadedModel> model, load_model(one, std::move(ops), cli));
    ranks->add(std::move(model));
  }
  return ranks;
}

Result<LedRanks> load_led_ranks(const RankOptions& layout, const RunOptions& options,
                                const ModelOptions& resolved, Cli& cli, const WrapOps& wrap) {
  const bool config_alone = resolved.dir.ends_with(".json");  // of synthetic weights
  GLINT_TRY(const ModelConfig config,
            read_config(config_alone ? resolved.dir : resolved.dir + "/config.json"));
  GLINT_TRY(const FittedShape fitted, fit_shape(layout, config, resolved.threads));
  if (!fitted.note.empty()) cli.console.note(fitted.note);
  GLINT_TRY(std::unique_ptr<Ranks> ranks, load_ranks(fitted.shape, options, resolved, cli, wrap));
  return LedRanks(std::move(ranks));
}

Json to_json(Ranks& ranks) {
  Json::Array all;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    all.push_back(describe_rank(ranks.model(rank)));
    all.back().set("collectives", Json::Object{{"tp", describe(ranks.tp(rank).uses())},
                                               {"cp", describe(ranks.cp(rank).uses())},
                                               {"ep", describe(ranks.ep(rank).uses())},
                                               {"pp", describe(ranks.pp(rank).uses())}});
  }
  return all;
}

}  // namespace glint
