#include "runtime/step.h"

namespace glint {

ForwardArgs run_batch(const Model& m, const Batch& batch, const StepOptions& options,
                      Arena& arena) {
  const std::int64_t T = batch.token_ids.dim(0), R = batch.logit_rows.dim(0);
  ForwardArgs args = {.token_ids = batch.token_ids,
                      .batch = batch.view,
                      .logit_rows = batch.logit_rows,
                      .taps = options.taps};
  if (m.partition.is_last()) args.hidden = arena.take(m.activations, {T, m.config.hidden_size});
  if (R > 0 && m.partition.is_last()) {
    args.logits = arena.take(DType::kF32, {R, m.weights.lm_head.rows});
  }
  const int moe_layers = m.config.num_moe_layers_before(m.partition.layers.end);
  if (options.routed && moe_layers > 0) {
    args.routed = arena.take(DType::kI32, {moe_layers * T, m.config.num_experts_per_tok});
  }
  forward(m, args, arena);
  return args;
}

ForwardArgs run_step(const Model& m, const StepRows& rows, const Tensor& rope_table,
                     const StepOptions& options, Arena& arena) {
  return run_batch(m, build_batch(rows, rope_table, options.seats, m.ops, arena), options, arena);
}

GatheredRows take_gathered(const Model& m, std::int64_t rows, Arena& arena) {
  return {.places = arena.take(DType::kI32, {rows}),
          .hidden = arena.take(m.activations, {rows, m.config.hidden_size})};
}

DraftResults run_draft_batch(const Model& m, const Batch& batch, std::span<const std::int32_t> last,
                             const std::function<Tensor()>& target, const DraftOptions& options,
                             Arena& arena) {
  const std::int64_t T = batch.token_ids.dim(0), R = batch.logit_rows.dim(0);
  MtpArgs args = {.next_ids = batch.token_ids,
                  .target = target(),
                  .batch = batch.view,
                  .logit_rows = batch.logit_rows};
  args.hidden = arena.take(m.activations, {T, m.config.hidden_size});
  if (R > 0) args.logits = arena.take(DType::kF32, {R, m.weights.lm_head.rows});
  args.selected =
      options.selected ? options.selected : arena.take(DType::kI32, {T, m.config.index_topk});
  args.selection_given = options.selected || !options.selection.empty();
  if (!options.selection.empty()) {
    m.ops.device().copy_in(args.selected.data, options.selection.data(),
                           options.selection.size_bytes());
  }
  forward_mtp(m, args, arena);
  if (options.all_rows) {
    return {.logits = args.logits, .hidden = args.hidden, .selected = args.selected};
  }
  const std::int64_t S = std::ssize(last);
  const GatheredRows tails = take_gathered(m, S, arena);
  m.ops.device().copy_in(tails.places.data, last.data(), last.size_bytes());
  m.ops.gather_rows({.x = args.hidden, .rows = tails.places, .out = tails.hidden});
  const Tensor keys = arena.take(DType::kI32, {S, m.config.index_topk});
  for (std::int64_t s = 0; s < S; ++s) {
    const Tensor row = keys.slice(0, s, 1);
    m.ops.device().copy(row.data, args.selected.slice(0, last[static_cast<std::size_t>(s)], 1).data,
                        row.bytes().size());
  }
  return {.logits = args.logits, .hidden = tails.hidden, .selected = keys};
}

DraftResults run_draft(const Model& m, StepRows rows, const Tensor& rope_table,
                       const std::function<Tensor()>& target, const DraftOptions& options,
                       Arena& arena) {
  std::vector<std::int32_t> last;
  for (const RowSlice& slice : rows.slices) {
    last.push_back(slice.token_begin + slice.count - 1);
    // Position 0 has no embedding: the layer was trained on rows from position 1 on.
    if (slice.first == 0 && slice.count > 0) {
      rows.tokens[static_cast<std::size_t>(slice.token_begin)] = -1;
    }
  }
  const Batch batch = build_batch(rows, rope_table, options.seats, m.ops, arena);
  return run_draft_batch(m, batch, last, target, options, arena);
}

Tensor run_head(const Model& m, const Tensor& hidden, Arena& arena) {
  const Tensor logits = arena.take(DType::kF32, {hidden.dim(0), m.weights.lm_head.rows});
  m.ops.linear({.x = hidden, .weight = m.weights.lm_head, .out = logits});
  return logits;
}

}  // namespace glint
