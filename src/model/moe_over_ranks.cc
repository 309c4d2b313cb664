#include "model/moe_over_ranks.h"

#include "ops/compose.h"

namespace glint {

void moe_over_ranks(const Model& m, const BatchView& batch, const MoeArgs& args, Arena& arena) {
  const Arena::Scope scope(arena);
  Comm& ep = *m.mesh.ep;
  const std::int64_t T = args.x.dim(0), D = args.x.dim(1), k = args.num_experts_per_tok;
  const std::int64_t E = args.weights.gate.rows;
  const ExpertRange mine = m.shard.experts;
  std::vector<std::int32_t> first;
  for (int r = 0; r < ep.size(); ++r) first.push_back(experts_of(E, r, ep.size()).first);
  first.push_back(static_cast<std::int32_t>(E));
  GLINT_CHECK(batch.all_tokens >= T, "the plan does not say how many tokens all ranks have");
  // A token sends its row to at most k of the experts here.
  const std::int64_t received = batch.all_tokens * std::min<std::int64_t>(k, mine.count);

  const MoeRouteArgs routed = take_routing(args, arena);
  m.ops.moe_route(routed, arena);
  const Tensor all_offsets = arena.take(DType::kI32, {ep.size(), E + 1});
  ep.all_gather(Tensor(routed.offsets.data, DType::kI32, {1, E + 1}), all_offsets);
  ExchangeArgs exchange = {.x = routed.m,
                           .rows = routed.rows,
                           .offsets = all_offsets,
                           .first = first,
                           .out = arena.take(m.activations, {received, D})};
  ep.exchange(exchange);

  const RegroupArgs groups = {.offsets = all_offsets,
                              .first = mine.first,
                              .rows = arena.take(DType::kI32, {received}),
                              .groups = arena.take(DType::kI32, {mine.count + 1}),
                              .places = arena.take(DType::kI32, {received})};
  m.ops.regroup(groups);
  const Tensor answers = arena.take(m.activations, {received, D});
  m.ops.moe_experts({.weights = args.weights,
                     .x = exchange.out,
                     .rows = groups.rows,
                     .offsets = groups.groups,
                     .out = answers},
                    arena);

  exchange.x = answers;
  exchange.rows = groups.places;
  exchange.out = arena.take(m.activations, {T * k, D});
  exchange.backwards = true;
  ep.exchange(exchange);
  m.ops.moe_combine({.weights = args.weights,
                     .m = routed.m,
                     .y = exchange.out,
                     .places = routed.places,
                     .expert_weights = routed.weights,
                     .delta = args.delta},
                    arena);
}

}  // namespace glint
