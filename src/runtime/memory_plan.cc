#include "runtime/memory_plan.h"

#include <algorithm>
#include <limits>

#include "base/str.h"

namespace glint {
namespace {

// Slots are int32 on the device.
constexpr std::int64_t kMaxPages = std::numeric_limits<std::int32_t>::max() / kPageSize;

std::int64_t pages_of(std::int64_t tokens) { return (tokens + kPageSize - 1) / kPageSize; }

std::int64_t share_of(std::int64_t bytes, double fraction) {
  return static_cast<std::int64_t>(static_cast<double>(bytes) * fraction);
}

struct Limit {
  std::int64_t bytes = 0;
  const char* name = "";
};

// What may be used besides the cache's own share: mapped weights are worth keeping in memory, but a
// model that is larger than memory must leave the cache some.
std::int64_t free_for_cache(const MemoryNeeds& needs) {
  const std::int64_t left = needs.available - needs.temporaries;
  if (!needs.weights_are_mapped) return left;
  return std::max(left - needs.weights, left / 4);
}

Limit wanted(const MemoryNeeds& needs, std::int64_t free) {
  const Limit fraction = {.name = "fraction"};
  switch (needs.share) {
    case MemoryShare::kOfTotal:
      return {share_of(needs.total, needs.fraction) - needs.weights - needs.temporaries,
              fraction.name};
    case MemoryShare::kWeightsAndCache:
      return {share_of(needs.total, needs.fraction) - needs.weights, fraction.name};
    case MemoryShare::kOfFree:
      return {share_of(free, needs.fraction), fraction.name};
    case MemoryShare::kAuto:
      break;
  }
  const std::int64_t requests =
      std::int64_t{needs.max_running} * pages_of(needs.max_seq_len) * needs.page_bytes;
  const Limit half = {free / 2, "free memory"};
  return requests < half.bytes ? Limit{requests, "requests"} : half;
}

// Bytes of a step's tensors; sizes by the names of the blocks' arguments.
struct Widths {
  const ModelConfig& c;
  std::int64_t element;  // bytes of an activation
  std::int64_t heads = c.num_attention_heads;

  std::int64_t batch(std::int64_t pages_per_sequence) const {
    return 4 * (4 + 2 * c.qk_rope_head_dim) + 4 * pages_per_sequence;
  }
  std::int64_t attention() const {
    const std::int64_t queries = heads * c.qk_head_dim();
    const std::int64_t in =
        c.hidden_size + 2 * c.q_lora_rank + 2 * c.latent_dim() + 2 * c.index_head_dim;
    const std::int64_t attend = 2 * heads * c.kv_lora_rank;
    const std::int64_t own = queries + c.index_n_heads * c.index_head_dim + heads * c.v_head_dim;
    return element * (own + std::max(in, attend)) + 4 * c.index_n_heads;
  }
  std::int64_t ffn() const {
    const std::int64_t k = c.num_experts_per_tok, inter = c.moe_intermediate_size;
    const std::int64_t moe = element * (2 * c.hidden_size + k * (2 * inter + c.hidden_size) +
                                        2 * c.shared_intermediate_size()) +
                             4 * (c.n_routed_experts + 5 * k);
    return std::max(moe, element * (c.hidden_size + 2 * c.intermediate_size));
  }
  // x, delta, the hidden states, and the keys.
  std::int64_t stream() const { return element * 3 * c.hidden_size + 4 * c.index_topk; }
  std::int64_t routed() const { return 4 * c.num_moe_layers() * c.num_experts_per_tok; }
};

}  // namespace

Result<MemoryPlan> plan_memory(const MemoryNeeds& needs) {
  const std::int64_t free = free_for_cache(needs);
  Limit limit = wanted(needs, free);
  if (limit.bytes > free) limit = {free, "free memory"};
  std::int64_t pages = std::max<std::int64_t>(limit.bytes, 0) / needs.page_bytes;
  if (needs.num_pages > 0) {
    pages = needs.num_pages;
    limit.name = "num_pages";
  }
  pages = std::min(pages, kMaxPages);
  const std::int64_t least = pages_of(needs.max_seq_len);
  if (pages < least) {
    const auto size = [&](std::int64_t count) {
      return human_bytes(static_cast<double>(count * needs.page_bytes));
    };
    return Error{ErrorCode::kResourceExhausted,
                 str("a sequence of ", needs.max_seq_len, " tokens needs ", size(least),
                     " of KV cache, but there are ", size(pages), " for it; give --max-model-len ",
                     pages * kPageSize, " or less, or the cache more memory")};
  }
  return MemoryPlan{.num_pages = static_cast<int>(pages),
                    .cache_bytes = pages * needs.page_bytes,
                    .limited_by = limit.name};
}

std::int64_t temporary_bytes(const ModelConfig& config, const StepSize& size) {
  const Widths widths = {.c = config, .element = size_of(size.activations)};
  const std::int64_t T = size.max_step_tokens;
  const std::int64_t batch = widths.batch(pages_of(size.max_seq_len));
  const std::int64_t block = std::max(widths.attention(), widths.ffn());
  std::int64_t bytes = T * (batch + widths.stream() + block + widths.routed());
  // Logits of the rows that are sampled from, and of one block of a prompt's.
  const std::int64_t sampled =
      std::min<std::int64_t>(T, std::int64_t{size.max_running} * (1 + size.max_drafts));
  bytes += 4 * config.vocab_size * (sampled + 64);
  if (size.with_mtp) {
    // Its input: the embedding, both normalised, and the gathered hidden states.
    const std::int64_t in = widths.element * 4 * config.hidden_size;
    bytes += T * (batch + widths.stream() + in + block) +
             8 * config.vocab_size * std::min<std::int64_t>(T, size.max_running);
  }
  // Arenas grow by 32 MiB; kernels pack their input rows, and keep scores.
  constexpr std::int64_t kChunk = std::int64_t{32} << 20;
  return bytes + bytes / 4 + 3 * kChunk;
}

}  // namespace glint
