// The ops, in one place: OP(Type, name) for each primitive and block, whose arguments are TypeArgs
// and whose method of Ops is name(). The enum, the names, Ops and what forwards, composes, refuses
// or delays them are made from these lists.
#pragma once

#define GLINT_FOR_EACH_OP(OP)       \
  OP(PlaceRows, place_rows)         \
  OP(Embed, embed)                  \
  OP(GatherRows, gather_rows)       \
  OP(Add, add)                      \
  OP(SiluMul, silu_mul)             \
  OP(RmsNorm, rms_norm)             \
  OP(LayerNorm, layer_norm)         \
  OP(Rope, rope)                    \
  OP(Linear, linear)                \
  OP(GroupedLinear, grouped_linear) \
  OP(PerHead, per_head)             \
  OP(WriteLatent, write_latent)     \
  OP(WriteIndex, write_index)       \
  OP(SelectKeys, select_keys)       \
  OP(SparseMla, sparse_mla)         \
  OP(Route, route)                  \
  OP(PickCopies, pick_copies)       \
  OP(CountExperts, count_experts)   \
  OP(Permute, permute)              \
  OP(Regroup, regroup)              \
  OP(Combine, combine)              \
  OP(Argmax, argmax)                \
  OP(Sample, sample)                \
  OP(PlaceDraws, place_draws)       \
  OP(Accept, accept)                \
  OP(KeepRows, keep_rows)           \
  OP(CountTokens, count_tokens)     \
  OP(TokenLogProbs, token_log_probs)

#define GLINT_FOR_EACH_BLOCK(OP)  \
  OP(AttentionIn, attention_in)   \
  OP(Attend, attend)              \
  OP(AttentionOut, attention_out) \
  OP(DenseFfn, dense_ffn)         \
  OP(Moe, moe)                    \
  OP(Head, head)

// The parts of moe, which are called alone where ranks share the experts.
#define GLINT_FOR_EACH_MOE_PART(OP) \
  OP(MoeRoute, moe_route)           \
  OP(MoeExperts, moe_experts)       \
  OP(MoeCombine, moe_combine)
