#include "model/moe_over_ranks.h"

#include "base/ceil_div.h"
#include "model/expert_tables.h"
#include "ops/compose.h"

namespace glint {
namespace {

// This rank's own rows of a mixture of experts.
struct OwnRows {
  MoeArgs args;
  Tensor positions = {};  // [T] i32
  int layer = 0;
  std::int64_t all = 0;  // rows of all ranks of mesh.ep
  Tensor out = {};       // like args.delta, written
};

// Where the experts move, rows are grouped by the slots that answer.
MoeRouteArgs to_slots(const Model& m, const OwnRows& own, const MoeRouteArgs& routed,
                      Arena& arena) {
  if (!m.expert_tables) return routed;
  const std::int64_t T = own.args.x.dim(0), k = own.args.num_experts_per_tok;
  const Tensor slots = arena.take(DType::kI32, {T, k});
  const ExpertTables::Layer& table = m.expert_tables->layer(own.layer);
  m.ops.pick_copies({.ids = routed.moe.routed,
                     .positions = own.positions,
                     .first = table.first,
                     .copies = table.copies,
                     .slots = slots});
  MoeRouteArgs by_slot = routed;
  by_slot.offsets = arena.take(DType::kI32, {m.partition.num_expert_slots + 1});
  m.ops.permute(
      {.ids = slots, .rows = by_slot.rows, .offsets = by_slot.offsets, .places = by_slot.places});
  return by_slot;
}

void run(const Model& m, OwnRows own, Arena& arena) {
  Comm& ep = *m.mesh.ep;
  const std::int64_t T = own.args.x.dim(0), D = own.args.x.dim(1);
  const std::int64_t k = own.args.num_experts_per_tok;
  const ExpertRange mine = m.partition.experts;
  const int num_slots = m.partition.num_expert_slots;
  std::vector<std::int32_t> first;
  for (int r = 0; r < ep.size(); ++r) first.push_back(experts_of(num_slots, r, ep.size()).first);
  first.push_back(num_slots);
  // A token sends its row to at most k of the experts here.
  const std::int64_t received = own.all * std::min<std::int64_t>(k, mine.count);

  if (m.expert_tables && !own.args.routed) own.args.routed = arena.take(DType::kI32, {T, k});
  const MoeRouteArgs by_expert = take_routing(own.args, arena);
  m.ops.moe_route(by_expert, arena);
  const MoeRouteArgs routed = to_slots(m, own, by_expert, arena);
  const Tensor all_offsets = arena.take(DType::kI32, {ep.size(), num_slots + 1});
  ep.all_gather(Tensor(routed.offsets.data, DType::kI32, {1, num_slots + 1}), all_offsets);
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
  m.ops.moe_experts({.weights = own.args.weights,
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
  m.ops.moe_combine({.weights = own.args.weights,
                     .m = routed.m,
                     .y = exchange.out,
                     .places = routed.places,
                     .expert_weights = routed.weights,
                     .delta = own.out},
                    arena);
}

// Every rank of a replica has all its rows, and is home of a stretch of them.
struct Stretch {
  std::int64_t each = 0;  // of a rank; the last ones may have fewer
  std::int64_t begin = 0, count = 0;

  Tensor of(const Tensor& x) const { return x.slice(0, begin, count); }
};

Stretch stretch_of(std::int64_t rows, const Comm& tp) {
  const std::int64_t each = ceil_div(rows, tp.size());
  const std::int64_t begin = std::min(rows, tp.rank() * each);
  return {.each = each, .begin = begin, .count = std::min(rows - begin, each)};
}

// The rows of all ranks of a replica, once each has written its own; behind the last there is room
// for as many rows of every rank.
void gather_rows(Comm& tp, const Stretch& stretch, Tensor rows) {
  rows.shape[0] = tp.size() * stretch.each;
  tp.all_gather(rows.slice(0, tp.rank() * stretch.each, stretch.each), rows);
}

// The ranks of a replica have the same rows.
void run_in_stretches(const Model& m, OwnRows own, Arena& arena) {
  Comm& tp = *m.mesh.tp;
  MoeArgs& args = own.args;
  const MoeArgs all = args;
  const std::int64_t T = args.x.dim(0);
  const Stretch mine = stretch_of(T, tp);
  // The sums that moe_route would leave in the others' rows.
  const std::int64_t end = mine.begin + mine.count;
  m.ops.add({.x = all.x.slice(0, 0, mine.begin), .y = all.delta.slice(0, 0, mine.begin)});
  m.ops.add({.x = all.x.slice(0, end, T - end), .y = all.delta.slice(0, end, T - end)});
  args.x = mine.of(args.x);
  args.delta = mine.of(args.delta);
  own.positions = mine.of(own.positions);
  if (args.positions) args.positions = mine.of(args.positions);
  own.out = args.delta;
  Tensor routed = all.routed;
  if (routed && !all.routed_given) {  // there is no room behind a layer's
    routed = arena.take(DType::kI32, {tp.size() * mine.each, routed.dim(1)}).slice(0, 0, T);
  }
  if (routed) args.routed = mine.of(routed);
  run(m, own, arena);
  gather_rows(tp, mine, all.delta);
  if (!routed || all.routed_given) return;
  gather_rows(tp, mine, routed);
  arena.device().copy(all.routed.data, routed.data, routed.bytes().size());
}

}  // namespace

void moe_over_ranks(const Model& m, const BatchView& batch, int layer, const MoeArgs& args,
                    Arena& arena) {
  const Arena::Scope scope(arena);
  const std::int64_t T = args.x.dim(0);
  const std::int64_t all = m.partition.shape.dp > 1 ? batch.all_tokens : T;
  GLINT_CHECK(all >= T, "the plan does not say how many tokens all ranks have");
  OwnRows own = {
      .args = args, .positions = batch.positions, .layer = layer, .all = all, .out = args.delta};
  m.mesh.tp->size() == 1 ? run(m, own, arena) : run_in_stretches(m, own, arena);
}

}  // namespace glint
