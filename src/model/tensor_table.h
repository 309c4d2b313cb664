// The tensors that a config implies: names, roles, shapes, how ranks divide them, where a loaded
// model has them, whether they are trained. The one list that the loader, `inspect`, the synthetic
// checkpoints, the quantiser, calibration and the counting of parameters go by.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "model/config.h"
#include "tensor/weight.h"

namespace glint {

struct ModelWeights;  // model/weights.h

enum class TensorRole : std::uint8_t {
  kEmbedding,
  kAttention,
  kIndexer,
  kDenseMlp,
  kRouter,
  kRoutedExpert,
  kSharedExpert,
  kMtp,  // what only the MTP layer has: eh_proj and its norms
  kNorm,
  kHead,
};
inline constexpr int kNumTensorRoles = 10;

const char* name_of(TensorRole role);  // "embedding", "attention", "routed experts", ...

// How the ranks of a tensor-parallel group (tp) divide a tensor; with expert parallelism (ep)
// routed experts are dealt out whole instead. A cut may lie inside an FP8 block or an NVFP4 group:
// both sides keep the scale that the whole matrix has there.
enum class Split : std::uint8_t {
  kWhole,       // every rank has all of it
  kRows,        // a range of the rows, which are outputs
  kCols,        // a range of the columns: every rank has a partial sum of all outputs
  kHeads,       // rows, by whole heads
  kVocab,       // rows, one a token
  kExpertRows,  // whole experts with ep, else rows of each
  kExpertCols,  // whole experts with ep, else columns of each
};

// Where a model has a tensor: a vector or the embedding, a matrix, a layer's experts, or
// kv_b_proj, which is there as two matrices a head (AttentionWeights).
struct KvHalves {
  WeightStack *w_uk, *w_uv;
};
using Held = std::variant<Tensor*, Weight*, WeightStack*, KvHalves>;

// One tensor, or the same one of every routed expert of a layer.
struct ModelTensor {
  // A matrix without its ".weight" ("model.layers.3.self_attn.q_a_proj"), a vector's full name. Of
  // routed experts, "*" stands for the number: "model.layers.3.mlp.experts.*.gate_proj".
  std::string name;
  TensorRole role = TensorRole::kNorm;
  int layer = -1;         // -1: outside the layers
  std::int64_t rows = 0;  // 0: a vector [cols]
  std::int64_t cols = 0;
  int num_experts = 0;  // 0: not of an expert
  // A linear layer that FP8 releases quantise. The others (embeddings, head, router, indexer's
  // weights_proj, eh_proj) stay BF16 in every release.
  bool is_quantizable = false;
  bool is_f32 = false;  // in every release, and to the ops
  // Gradients reach it: not the indexer, whose choice of keys has none, nor the router's bias.
  bool is_trained = true;
  Split split = Split::kWhole;
  Held (*find)(ModelWeights& weights, int layer) = nullptr;

  // The tensor's place in `weights`, which must have its layer.
  Held held(ModelWeights& weights) const { return find(weights, layer); }
  bool is_matrix() const { return rows > 0; }
  int num_copies() const { return num_experts ? num_experts : 1; }
  std::int64_t elements() const { return (is_matrix() ? rows : 1) * cols; }
  std::int64_t parameters() const { return elements() * num_copies(); }
  // The name of copy `expert`, which is ignored where there is only one.
  std::string name_of_copy(int expert) const;
};

// More copies than any checkpoint has: what lists them one by one refuses a config that implies
// more.
inline constexpr std::int64_t kMaxTensors = 4'000'000;

// In the order of the forward pass, the MTP layer last. Tied embeddings: no lm_head. A tensor's
// place in this list is the id of its tensors and weights; kv_b_proj's halves are w_uk, w_uv.
std::vector<ModelTensor> model_tensors(const ModelConfig& config);

struct ParameterCount {
  std::int64_t main = 0;    // without the MTP layer
  std::int64_t mtp = 0;     // of the MTP layer
  std::int64_t active = 0;  // read for one token: the chosen experts only, no embedding, no MTP
  std::int64_t head = 0;    // of which lm_head, or the embedding in its place

  std::int64_t total() const { return main + mtp; }
};
ParameterCount count_parameters(const ModelConfig& config);

}  // namespace glint
