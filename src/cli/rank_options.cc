#include "cli/rank_options.h"

#include <algorithm>

#include "base/str.h"
#include "cli/backends.h"

namespace glint {
namespace {

Json to_json(const CountingComm& comm) {
  Json::Object calls;
  for (const auto& [name, use] : comm.uses()) {
    calls.emplace_back(name, Json(Json::Object{{"calls", use.calls}, {"bytes", use.bytes}}));
  }
  return Json(std::move(calls));
}

}  // namespace

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
  FittedShape fitted = {.shape = shape};
  if (tp < options.tp) {
    const int heads = config.num_attention_heads;
    fitted.note =
        str("tp ", options.tp, " -> ", tp, ": ",
            tp < by_model ? str("there are ", threads, " threads")
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
                                          std::optional<Checkpoint> opened) {
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
    GLINT_TRY(std::unique_ptr<LoadedModel> model,
              load_model(one, std::move(ops), cli, std::exchange(opened, std::nullopt)));
    ranks->add(std::move(model));
  }
  return ranks;
}

Json to_json(Ranks& ranks) {
  Json::Array all;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    LoadedModel& model = ranks.model(rank);
    const ShardPlan& shard = model.shard();
    const ExpertRange& experts = shard.experts;
    all.push_back(Json(Json::Object{
        {"rank", rank},
        {"device", model.ops().device().name()},
        {"shard", shard.shard},
        {"stage", shard.stage},
        {"tp_rank", shard.tp_rank},
        {"layers", Json(Json::Array{shard.layers.begin, shard.layers.end})},
        {"experts", Json(Json::Array{experts.first, experts.first + experts.count})},
        {"heads", Json(Json::Array{shard.heads.first, shard.heads.first + shard.heads.count})},
        {"weight_bytes", model.load_stats().held_bytes},
        {"collectives", Json(Json::Object{{"tp", to_json(ranks.tp(rank))},
                                          {"cp", to_json(ranks.cp(rank))},
                                          {"ep", to_json(ranks.ep(rank))},
                                          {"pp", to_json(ranks.pp(rank))}})}}));
  }
  return Json(std::move(all));
}

}  // namespace glint
