#include "runtime/emulated_rank.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "base/seconds.h"
#include "base/str.h"
#include "runtime/expert_load.h"
#include "runtime/weight_noise.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

constexpr std::int64_t kFilled = 2048;  // tokens of a cache that a pass writes; the rest are copies

// `k` different ones of `count`, for each of `rows` rows.
std::vector<std::int32_t> draw_experts(std::int64_t rows, int count, int k) {
  Random random(7);
  ExpertDraws draws(count, k);
  std::vector<std::int32_t> drawn;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::span<const std::int32_t> experts = draws.next(random);
    drawn.insert(drawn.end(), experts.begin(), experts.end());
  }
  return drawn;
}

}  // namespace

Result<std::unique_ptr<EmulatedRank>> EmulatedRank::make(const ModelConfig& config,
                                                         const TrialOptions& options, int num_pages,
                                                         Ops& ops) {
  const MeshShape& shape = options.shape;
  if (shape.ep != 1 || shape.dp != 1 || shape.pp != 1) {
    return invalid(
        str("a rank of ", describe(shape),
            " cannot be emulated alone; give the size of a tensor-parallel group, tp=N"));
  }
  std::unique_ptr<EmulatedRank> rank(new EmulatedRank(config, options, ops));
  GLINT_TRY(rank->partition_, partition_of(config, shape, 0));
  Device& device = ops.device();
  GLINT_TRY(rank->weights_, make_up_weights(config, rank->partition_,
                                            {.format = options.format,
                                             .tp = shape.tp,
                                             .activations = options.numbers.activations},
                                            device));
  GLINT_TRY(KvStore kv, KvStore::make(config,
                                      {.latent = options.numbers.latent,
                                       .index = options.numbers.index,
                                       .num_pages = num_pages,
                                       .with_mtp = false,
                                       .layers = rank->partition_.layers},
                                      device));
  rank->kv_.emplace(std::move(kv));
  GLINT_TRY(rank->rope_,
            make_rope_table(config, std::int64_t{num_pages} * kPageSize, device, nullptr));
  return rank;
}

Model EmulatedRank::model() {
  return {ops_, {}, partition_, config_, weights_, *kv_, options_.numbers.activations, activity_};
}

std::int64_t EmulatedRank::weight_bytes() const {
  return std::accumulate(
      weights_.owned.begin(), weights_.owned.end(), std::int64_t{0},
      [](std::int64_t sum, const Buffer& b) { return sum + static_cast<std::int64_t>(b.bytes()); });
}

void EmulatedRank::prepare(const EmulatedLoad& load) {
  graph_.reset();
  scope_.reset();
  scope_.emplace(arena_);
  const std::int64_t each = pages_of(load.context);
  GLINT_CHECK(each * load.sequences <= kv_->num_pages(), "a load of more pages than there are");
  Random random(3);
  StepRows rows;
  for (int s = 0; s < load.sequences; ++s) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(load.rows));
    const auto vocab = static_cast<std::uint32_t>(weights_.embed_tokens.dim(0));
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.below(vocab));
    std::vector<PageId> pages(static_cast<std::size_t>(each));
    std::iota(pages.begin(), pages.end(), static_cast<PageId>(s * each));
    rows.add(static_cast<int>(load.context - load.rows), tokens, pages, 1);
  }
  const BatchArrays arrays = gather(rows, rope_.table.dim(0), 0);
  inputs_ = take_inputs(arrays.sizes(), arena_);
  copy_in(arrays, inputs_, ops_.device());
  const auto T = std::ssize(arrays.tokens);
  const std::vector<std::int32_t> experts = draw_experts(
      T * config_.num_moe_layers(), config_.n_routed_experts, config_.num_experts_per_tok);
  routed_ = upload(experts, {T * config_.num_moe_layers(), config_.num_experts_per_tok}, arena_);
  logits_ = arena_.take(DType::kF32, {load.sequences, weights_.lm_head.rows});
  pass();  // takes its memory, and loads the kernels
  ops_.device().synchronize();
  graph_ = ops_.device().capture([this] { pass(); });
  ops_.device().synchronize();
}

void EmulatedRank::pass() {
  const Arena::Scope scope(arena_);
  const Model m = model();
  const Batch batch = place(inputs_, rope_.table, {}, ops_, arena_);
  const std::int64_t T = batch.token_ids.dim(0);
  const Tensor hidden = arena_.take(m.activations, {T, config_.hidden_size});
  Pass pass(m, batch.view, T, arena_);
  pass.embed(batch.token_ids);
  std::int64_t moe_layer = 0;
  for (int i = 0; i < config_.num_hidden_layers; ++i) {
    LayerChoices choices;
    if (!config_.layers[static_cast<std::size_t>(i)].is_dense()) {
      choices = {.routed = routed_.slice(0, T * moe_layer++, T), .routed_given = true};
    }
    pass.layer(i, choices);
  }
  pass.head(weights_.norm, batch.logit_rows, hidden, logits_);
}

bool EmulatedRank::logits_are_numbers() {
  const std::vector<float> logits = download<float>(logits_, ops_.device());
  return std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
}

double EmulatedRank::time(int count) {
  ops_.device().synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) graph_ ? graph_->launch() : pass();
  ops_.device().synchronize();
  return seconds_since(start) / count;
}

void EmulatedRank::fill_cache(std::int64_t longest) {
  const std::int64_t tokens = std::min(kFilled, longest);
  prepare({.sequences = 1, .rows = tokens, .context = tokens});
  const auto filled = static_cast<PageId>(tokens / kPageSize);
  for (PageId page = filled; filled > 0 && page < kv_->num_pages(); ++page) {
    kv_->copy_page(page % filled, page);
  }
  ops_.device().synchronize();
}

}  // namespace glint
