#include "eval/calibrate.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/str.h"
#include "engine/sampling_params.h"
#include "eval/step_packer.h"
#include "runtime/memory_plan.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

// Runs the MTP layer over the rows of `step` whose next token is known: row p from hidden state p
// and token p + 1.
void draft_step(LoadedModel& model, const StepPacker::Step& step, const TokenSequences& prompts,
                const Tensor& hidden, Arena& arena) {
  const Arena::Scope scope(arena);
  StepRows drafts;
  std::vector<std::int32_t> rows;  // of `hidden`
  for (std::size_t s = 0; s < step.parts.size(); ++s) {
    const StepPacker::Step::Part& part = step.parts[s];
    const RowSlice& slice = step.plan.slices[s];
    const std::span<const TokenId> ids = prompts[part.sequence];
    const std::int64_t count =
        std::min(part.count, static_cast<std::int64_t>(ids.size()) - 1 - part.first);
    if (count <= 0) continue;
    const std::span<const PageId> pages =
        std::span(step.plan.pages).subspan(slice.page_begin, slice.num_pages);
    drafts.add(static_cast<int>(part.first), ids.subspan(part.first + 1, count), pages, 0);
    for (std::int64_t r = 0; r < count; ++r)
      rows.push_back(static_cast<std::int32_t>(slice.token_begin + r));
  }
  if (rows.empty()) return;
  const std::int64_t R = static_cast<std::int64_t>(rows.size());
  const Tensor index = upload(rows, {R}, arena);
  const Tensor target = arena.take(hidden.dtype, {R, hidden.dim(1)});
  model.ops().gather_rows({.x = hidden, .rows = index, .out = target});
  model.draft(drafts, {.on_device = target});
}

}  // namespace

Result<Calibration> calibrate(LoadedModel& model, TapOps& ops, const TokenSequences& prompts,
                              const CalibrateOptions& options) {
  std::int64_t longest = 1;
  for (const std::vector<TokenId>& ids : prompts) {
    GLINT_TRY_STATUS(check_token_ids("a sequence", ids, model.config().vocab_size));
    longest = std::max(longest, std::ssize(ids));
  }
  InputRanges ranges(model.weights());
  ops.set_taps(ranges.taps(ops.device()));
  Calibration out;
  StepPacker packer(prompts, options.tokens_per_step);
  Status status = reserve(model, std::max(packer.pages_needed(), 1),
                          {.max_step_tokens = options.tokens_per_step,
                           .max_running = 1,  // tables of more sequences are small
                           .max_drafts = model.has_mtp() ? 1 : 0,
                           .max_seq_len = longest});
  Arena arena(ops.device());
  while (status.ok() && !out.stopped) {
    const StepPacker::Step step = packer.next();
    if (step.parts.empty()) break;
    const StepOutput result = model.step(step.plan);
    if (model.has_mtp()) draft_step(model, step, prompts, result.hidden, arena);
    const std::int64_t tokens = static_cast<std::int64_t>(step.plan.tokens.size());
    out.tokens += tokens;
    out.stopped = options.progress && !options.progress(tokens);
    status = ranges.check_finite();
  }
  ops.set_taps({});
  GLINT_TRY_STATUS(std::move(status));
  out.prompts = packer.num_done();
  out.ranges = ranges.ranges();
  return out;
}

std::vector<std::string> describe_unseen_experts(const ActivationRanges& ranges) {
  struct Layer {
    std::map<int, bool> seen;  // by expert
  };
  std::map<int, Layer> layers;
  for (const auto& [name, range] : ranges) {
    int layer = 0, expert = 0, end = 0;
    const char* form = "model.layers.%d.mlp.experts.%d.gate_proj%n";
    if (std::sscanf(name.c_str(), form, &layer, &expert, &end) == 2 &&
        end == static_cast<int>(name.size())) {
      layers[layer].seen[expert] = range.tokens > 0;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [number, layer] : layers) {
    std::string experts;
    int unseen = 0;
    for (const auto& [expert, seen] : layer.seen) {
      if (seen) continue;
      experts += str(unseen++ ? ", " : "", expert);
    }
    if (unseen) {
      lines.push_back(str("layer ", number, ": ", unseen, " of ", layer.seen.size(), " experts (",
                          experts, ")"));
    }
  }
  return lines;
}

}  // namespace glint
