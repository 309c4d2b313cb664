#include "runtime/step_memory.h"

#include <algorithm>

#include "ops/kv_layout.h"

namespace glint {
namespace {

// Bytes of a step's tensors; sizes by the names of the blocks' arguments.
struct Widths {
  const ModelConfig& c;
  std::int64_t element;  // bytes of an activation
  std::int64_t heads = c.num_attention_heads;

  std::int64_t batch() const { return 4 * (4 + c.qk_rope_head_dim); }
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
                             4 * (c.hidden_size + c.n_routed_experts + 5 * k);
    return std::max(moe, element * (c.hidden_size + 2 * c.intermediate_size));
  }
  // x, delta, the hidden states, and the keys.
  std::int64_t stream() const { return (4 + 2 * element) * c.hidden_size + 4 * c.index_topk; }
  std::int64_t routed() const { return 4 * c.num_moe_layers() * c.num_experts_per_tok; }
};

}  // namespace

std::int64_t step_bytes(const ModelConfig& config, const StepSize& size) {
  const Widths widths = {.c = config, .element = size_of(size.activations)};
  const std::int64_t T = size.max_step_tokens;
  const std::int64_t page_table =
      4 * std::min<std::int64_t>(T, size.max_running) * (size.max_seq_len / kPageSize + 1);
  const std::int64_t block = std::max(widths.attention(), widths.ffn());
  std::int64_t bytes =
      page_table + T * (widths.batch() + widths.stream() + block + widths.routed());
  // Logits of the rows that are sampled from, and of one block of a prompt's.
  const std::int64_t sampled =
      std::min<std::int64_t>(T, std::int64_t{size.max_running} * (1 + size.max_drafts));
  bytes += 4 * config.vocab_size * (sampled + 64);
  if (size.max_drafts > 0) {
    // Its input: the embedding, both normalised, and the gathered hidden states.
    const std::int64_t in = widths.element * 4 * config.hidden_size;
    bytes += page_table + T * (widths.batch() + widths.stream() + in + block) +
             8 * config.vocab_size * std::min<std::int64_t>(T, size.max_running);
  }
  // Arenas grow by 32 MiB; kernels pack their input rows, and keep scores.
  constexpr std::int64_t kChunk = std::int64_t{32} << 20;
  return bytes + bytes / 4 + 3 * kChunk;
}

}  // namespace glint
