// The ops, in one place: OP(Type, name) for each primitive, whose arguments are TypeArgs and whose
// method of Ops is name(). The enum, the names, Ops and what forwards, refuses or delays every op
// are made from this list.
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
