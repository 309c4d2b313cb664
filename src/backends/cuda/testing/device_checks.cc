#include "backends/cuda/testing/device_checks.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/comm/collectives.h"
#include "backends/cuda/device.h"
#include "base/random.h"
#include "base/str.h"
#include "comm/tree.h"

namespace glint::cuda {
namespace {

// Device memory and the values in it.
template <class T = BF16>
class Values {
 public:
  // `offset` elements are left out at the start, so that the tensor is as badly aligned as wanted.
  Values(Device& device, std::int64_t rows, std::int64_t columns, std::uint64_t seed,
         int offset = 0)
      : device_(device), buffer_(device.allocate((rows * columns + offset) * sizeof(T))) {
    GLINT_CHECK(buffer_.data(), "no memory for a check");
    tensor_ = Tensor(buffer_.data() + offset * sizeof(T), kDTypeOf<T>, {rows, columns});
    std::vector<T> host(rows * columns);
    for (std::size_t i = 0; i < host.size(); ++i) {
      const std::uint32_t bits = philox(seed, 0, i)[0];
      host[i] = from_float<T>((static_cast<float>(bits >> 8) * 0x1p-24f - 0.5f) * 2.0f);
    }
    device_.copy_in(tensor_.data, host.data(), host.size() * sizeof(T));
  }

  const Tensor& tensor() const { return tensor_; }
  Tensor vector() const { return Tensor(tensor_.data, kDTypeOf<T>, {tensor_.size()}); }
  Weight weight() const {
    return {.format = WeightFormat::kBF16,
            .rows = tensor_.dim(0),
            .cols = tensor_.dim(1),
            .data = tensor_};
  }

 private:
  Device& device_;
  Buffer buffer_;
  Tensor tensor_;
};

// A weight in device memory, of random finite codes.
class CodedWeight {
 public:
  CodedWeight(Device& device, WeightFormat format, std::int64_t rows, std::int64_t cols)
      : codes_(device.allocate(rows * cols * 2)), scales_(device.allocate(rows * cols)) {
    GLINT_CHECK(codes_.data() && scales_.data(), "no memory for a check");
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows * cols * 2));
    for (std::size_t i = 0; i < bytes.size(); ++i) {  // below 64 as bf16, no NaN as e4m3
      bytes[i] = static_cast<std::uint8_t>(philox(20, 0, i)[0] & 0xbf);
      if (i % 2 == 1) bytes[i] = static_cast<std::uint8_t>((bytes[i] & 0x80) | 0x3f);
    }
    device.copy_in(codes_.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = i % 4 == 3 ? 0x38 : 0x30 + i % 7;
    device.copy_in(scales_.data(), bytes.data(), static_cast<std::size_t>(rows * cols));
    weight_ = {.format = format, .rows = rows, .cols = cols};
    switch (format) {
      case WeightFormat::kFp8Block:
        weight_.data = Tensor(codes_.data(), DType::kF8E4M3, {rows, cols});
        weight_.scale = Tensor(scales_.data(), DType::kF32, {fp8_blocks(rows), fp8_blocks(cols)});
        break;
      case WeightFormat::kNvfp4:
        weight_.data = Tensor(codes_.data(), DType::kU8, {rows, cols / 2});
        weight_.scale = Tensor(scales_.data(), DType::kF8E4M3, {rows, cols / kNvfp4Group});
        weight_.global_scale = Tensor(scales_.data(), DType::kF32, {1});
        break;
      default:
        weight_.data = Tensor(codes_.data(), DType::kBF16, {rows, cols});
    }
  }
  const Weight& weight() const { return weight_; }

 private:
  Buffer codes_, scales_;
  Weight weight_;
};

std::vector<std::byte> bytes_of(Device& device, const Tensor& dense) {
  std::vector<std::byte> bytes(dense.size() * size_of(dense.dtype));
  device.copy_out(bytes.data(), dense.data, bytes.size());
  return bytes;
}

// "" or how `got` and `wanted`, both dense, differ.
std::string compare_bits(Device& device, const char* what, const Tensor& got,
                         const Tensor& wanted) {
  const auto a = bytes_of(device, got), b = bytes_of(device, wanted);
  GLINT_CHECK(a.size() == b.size(), "compared tensors have one shape");
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return str(what, " differs at element ", i / size_of(got.dtype));
  }
  return "";
}

std::string too_large_an_allocation_is_an_empty_buffer(Ops& ops) {
  if (ops.device().allocate(std::size_t{1} << 50).data()) return "got a PiB";
  if (!ops.device().allocate(1 << 20).data()) return "no memory after a refusal";
  return "";
}

// As a trainer's thread does while the engine's records a step.
std::string memory_is_freed_while_another_thread_records(Ops& ops) {
  Device& device = ops.device();
  Values<> from(device, 1, 100, 40), to(device, 1, 100, 41);
  Buffer freed = device.allocate(1000);
  std::thread other;
  const std::unique_ptr<Graph> graph = device.capture([&] {
    other = std::thread([&freed] { freed = {}; });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    device.copy(to.tensor().data, from.tensor().data, from.tensor().bytes().size());
  });
  other.join();
  return compare_bits(device, "what a graph copies", to.tensor(), from.tensor());
}

// The host buffer changes between the copies, and no copy may see a later content.
std::string copies_read_the_host_before_they_return(Ops& ops) {
  Device& device = ops.device();
  constexpr std::size_t kCopies = 500, kLargest = 300'000;
  std::vector<std::size_t> at(kCopies + 1);
  for (std::size_t i = 0; i < kCopies; ++i) {
    at[i + 1] = at[i] + (i % 50 == 0 ? kLargest : philox(1, 0, i)[0] % 9000);
  }
  const Buffer buffer = device.allocate(at[kCopies]);
  std::vector<std::byte> host(kLargest);
  for (std::size_t i = 0; i < kCopies; ++i) {
    std::memset(host.data(), static_cast<int>(i % 251), host.size());
    device.copy_in(buffer.data() + at[i], host.data(), at[i + 1] - at[i]);
  }
  std::vector<std::byte> back(at[kCopies]);
  device.copy_out(back.data(), buffer.data(), back.size());
  for (std::size_t i = 0; i < kCopies; ++i) {
    for (std::size_t j = at[i]; j < at[i + 1]; ++j) {
      if (back[j] != static_cast<std::byte>(i % 251)) return str("copy ", i, " went wrong");
    }
  }
  return "";
}

// Row counts that meet every tile size, the last tile filled in part.
constexpr std::int64_t kRowCounts[] = {1, 2, 5, 16, 17, 64, 129, 700};

// The last rows of a product, which lie elsewhere in their tile, against the same rows of all.
std::string compare_batches(Ops& ops, const Weight& weight) {
  constexpr int kAll = 700;
  Device& device = ops.device();
  const std::int64_t n = weight.rows, k = weight.cols;
  const Values x(device, kAll, k, 2), all(device, kAll, n, 0), some(device, kAll, n, 0);
  ops.linear({.x = x.tensor(), .weight = weight, .out = all.tensor()});
  for (const std::int64_t rows : kRowCounts) {
    const std::int64_t first = kAll - rows;
    const Tensor out = some.tensor().slice(0, first, rows);
    ops.linear({.x = x.tensor().slice(0, first, rows), .weight = weight, .out = out});
    const std::string what =
        str("[", rows, ", ", k, "] x ", name_of(weight.format), " [", n, ", ", k, "]");
    const auto difference =
        compare_bits(device, what.c_str(), out, all.tensor().slice(0, first, rows));
    if (!difference.empty()) return difference;
  }
  return "";
}

std::string a_row_of_linear_does_not_depend_on_its_batch(Ops& ops) {
  for (const auto& [n, k] : {std::pair{3072, 1024}, {3104, 6144}, {40, 1000}, {33, 77}}) {
    for (const WeightFormat format :
         {WeightFormat::kBF16, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
      if (format == WeightFormat::kNvfp4 && k % kNvfp4Group != 0) continue;
      const CodedWeight weight(ops.device(), format, n, k);
      const auto difference = compare_batches(ops, weight.weight());
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

std::string linear_does_not_depend_on_alignment(Ops& ops) {
  Device& device = ops.device();
  constexpr int kRows = 130, kN = 192, kK = 640;
  const Values x(device, kRows, kK, 4), weight(device, kN, kK, 5), out(device, kRows, kN, 0);
  const Values odd_x(device, kRows, kK, 4, 1), odd_weight(device, kN, kK, 5, 3);
  const Values odd_out(device, kRows, kN, 0, 5);
  ops.linear({.x = x.tensor(), .weight = weight.weight(), .out = out.tensor()});
  ops.linear({.x = odd_x.tensor(), .weight = odd_weight.weight(), .out = odd_out.tensor()});
  return compare_bits(device, "unaligned linear", odd_out.tensor(), out.tensor());
}

std::string rms_norm_does_not_depend_on_alignment(Ops& ops) {
  Device& device = ops.device();
  constexpr int kRows = 5, kD = 1530;
  const Values x(device, kRows, kD, 6), odd_x(device, kRows, kD, 6, 1), weight(device, 1, kD, 7);
  const Values delta(device, kRows, kD, 8), out(device, kRows, kD, 0),
      odd_out(device, kRows, kD, 0);
  for (const auto& [from, to] : {std::pair{&x, &out}, {&odd_x, &odd_out}}) {
    ops.rms_norm({.x = from->tensor(),
                  .delta = delta.tensor(),
                  .weight = weight.vector(),
                  .out = to->tensor()});
  }
  const auto difference = compare_bits(device, "unaligned x", odd_x.tensor(), x.tensor());
  if (!difference.empty()) return difference;
  return compare_bits(device, "unaligned rms_norm", odd_out.tensor(), out.tensor());
}

std::string dense_ffn_equals_its_composition_to_the_bit(Ops& ops) {
  Device& device = ops.device();
  Arena scratch(device);
  for (const auto& [hidden, inter] : {std::pair{1024, 2048}, {72, 33}}) {
    const Values gate(device, inter, hidden, 9), up(device, inter, hidden, 10);
    const Values down(device, hidden, inter, 11), norm(device, 1, hidden, 12);
    const FfnWeights weights = {gate.weight(), up.weight(), down.weight()};
    for (const std::int64_t rows : kRowCounts) {
      const Values<float> x(device, rows, hidden, 13), same_x(device, rows, hidden, 13);
      const Values delta(device, rows, hidden, 14), same_delta(device, rows, hidden, 14);
      DenseFfnArgs args = {.weights = weights, .norm = norm.vector(), .eps = 1e-5f};
      args.x = x.tensor(), args.delta = delta.tensor();
      ops.dense_ffn(args, scratch);
      args.x = same_x.tensor(), args.delta = same_delta.tensor();
      ops.Ops::dense_ffn(args, scratch);
      const std::string what = str(rows, " rows of ", hidden, " by ", inter);
      auto difference = compare_bits(device, (what + ": x").c_str(), x.tensor(), same_x.tensor());
      if (difference.empty()) {
        difference =
            compare_bits(device, (what + ": delta").c_str(), delta.tensor(), same_delta.tensor());
      }
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

// As it is called, in a graph, whose branches run beside each other, and in the parts of ranks.
std::string moe_has_the_same_bits_in_a_graph_and_in_parts(Ops& ops) {
  constexpr std::int64_t kHidden = 1024, kInter = 512, kExperts = 16;
  Device& device = ops.device();
  Arena scratch(device);
  const Values router(device, kExperts, kHidden, 50), norm(device, 1, kHidden, 51);
  const Values<float> bias(device, 1, kExperts, 52);
  const auto stack = [&](const Values<>& all, std::int64_t rows, std::int64_t cols) {
    return WeightStack{.format = WeightFormat::kBF16,
                       .count = kExperts,
                       .rows = rows,
                       .cols = cols,
                       .data = Tensor(all.tensor().data, DType::kBF16, {kExperts, rows, cols})};
  };
  const Values gate(device, kExperts * kInter, kHidden, 53),
      up(device, kExperts * kInter, kHidden, 54), down(device, kExperts * kHidden, kInter, 55);
  const Values shared_gate(device, kInter, kHidden, 56), shared_up(device, kInter, kHidden, 57),
      shared_down(device, kHidden, kInter, 58);
  MoeWeights weights;
  weights.gate = router.weight(), weights.e_score_correction_bias = bias.vector();
  weights.gate_proj = stack(gate, kInter, kHidden), weights.up_proj = stack(up, kInter, kHidden);
  weights.down_proj = stack(down, kHidden, kInter);
  weights.shared_experts = {shared_gate.weight(), shared_up.weight(), shared_down.weight()};
  for (const std::int64_t rows : kRowCounts) {
    const auto run = [&](const Values<float>& x, const Values<>& delta, auto call) {
      const MoeArgs args = {.weights = weights,
                            .norm = norm.vector(),
                            .eps = 1e-5f,
                            .num_experts_per_tok = 4,
                            .routed_scaling_factor = 2.5f,
                            .x = x.tensor(),
                            .delta = delta.tensor()};
      call(args);
    };
    const Values<float> x(device, rows, kHidden, 59);
    const Values delta(device, rows, kHidden, 60);
    run(x, delta, [&](const MoeArgs& args) { ops.moe(args, scratch); });
    for (const bool recorded : {true, false}) {
      const Values<float> same_x(device, rows, kHidden, 59);
      const Values same_delta(device, rows, kHidden, 60);
      run(same_x, same_delta, [&](const MoeArgs& args) {
        if (!recorded) return ops.Ops::moe(args, scratch);
        device.capture([&] { ops.moe(args, scratch); });  // and runs it
      });
      const std::string what = str(rows, recorded ? " rows in a graph: " : " rows in parts: ");
      auto difference = compare_bits(device, (what + "x").c_str(), same_x.tensor(), x.tensor());
      if (difference.empty()) {
        difference =
            compare_bits(device, (what + "delta").c_str(), same_delta.tensor(), delta.tensor());
      }
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

// The same of attention_in, over caches in bf16.
std::string attention_in_has_the_same_bits_in_a_graph(Ops& ops) {
  constexpr int kHidden = 1024, kQuery = 256, kHeads = 4, kLatent = 512, kRope = 64, kWidth = 256,
                kKeyHeads = 8, kKey = 128, kMostRows = 700;
  constexpr std::int64_t kSlots = 11 * kPageSize;
  Device& device = ops.device();
  Arena scratch(device);
  const Values input_norm(device, 1, kHidden, 61), query_norm(device, 1, kQuery, 62),
      latent_norm(device, 1, kLatent, 63);
  const Values q_a(device, kQuery, kHidden, 64), q_b(device, kHeads * kWidth, kQuery, 65),
      kv_a(device, kLatent + kRope, kHidden, 66), wq_b(device, kKeyHeads * kKey, kQuery, 67),
      wk(device, kKey, kHidden, 68), weights_proj(device, kKeyHeads, kHidden, 69);
  const Values<float> k_norm(device, 1, kKey, 70), k_bias(device, 1, kKey, 71),
      angles(device, kMostRows, kRope, 72);
  const AttentionDims dims = {.heads = kHeads,
                              .qk_nope_head_dim = kWidth - kRope,
                              .qk_rope_head_dim = kRope,
                              .v_head_dim = 256,
                              .kv_lora_rank = kLatent,
                              .index_n_heads = kKeyHeads,
                              .index_head_dim = kKey,
                              .index_topk = 64,
                              .rms_norm_eps = 1e-5f,
                              .softmax_scale = 0.0625f};
  const AttentionWeights weights = {.input_layernorm = input_norm.vector(),
                                    .q_a_proj = q_a.weight(),
                                    .q_a_layernorm = query_norm.vector(),
                                    .q_b_proj = q_b.weight(),
                                    .kv_a_proj_with_mqa = kv_a.weight(),
                                    .kv_a_layernorm = latent_norm.vector(),
                                    .indexer = {.wq_b = wq_b.weight(),
                                                .wk = wk.weight(),
                                                .weights_proj = weights_proj.weight(),
                                                .k_norm = k_norm.vector(),
                                                .k_norm_bias = k_bias.vector()}};
  std::vector<std::int32_t> ascending(kMostRows);
  std::iota(ascending.begin(), ascending.end(), 0);
  const Buffer positions = device.allocate(kMostRows * 4);  // and slots
  device.copy_in(positions.data(), ascending.data(), kMostRows * 4);
  for (const std::int64_t rows : kRowCounts) {
    struct Written {
      Values<float> x;
      Values<> latents, keys, q, index_q;
      Values<float> index_weights;
    };
    const auto make = [&]() -> Written {
      return {{device, rows, kHidden, 73},          {device, kSlots, kLatent + kRope, 74},
              {device, kSlots, kKey, 75},           {device, rows, kHeads * kWidth, 76},
              {device, rows, kKeyHeads * kKey, 77}, {device, rows, kKeyHeads, 78}};
    };
    const Values delta(device, rows, kHidden, 79);
    const auto run = [&](const Written& w) {
      const Tensor numbers(positions.data(), DType::kI32, {rows});
      BatchView batch = {};
      batch.positions = batch.slots = numbers;
      batch.rope_table = angles.tensor();
      ops.attention_in({.dims = dims,
                        .weights = weights,
                        .x = w.x.tensor(),
                        .delta = delta.tensor(),
                        .batch = batch,
                        .latent_cache = {.data = w.latents.tensor().data,
                                         .format = LatentFormat::kBF16,
                                         .num_slots = kSlots,
                                         .latent_dim = kLatent,
                                         .rope_dim = kRope},
                        .index_cache = {.data = w.keys.tensor().data,
                                        .format = IndexFormat::kBF16,
                                        .num_slots = kSlots,
                                        .dim = kKey},
                        .q = w.q.tensor().heads(kHeads),
                        .index_q = w.index_q.tensor().heads(kKeyHeads),
                        .index_weights = w.index_weights.tensor()},
                       scratch);
    };
    const Written called = make(), recorded = make();
    run(called);
    device.capture([&] { run(recorded); });  // and runs it
    const auto compare = [&](const char* name, const auto& a, const auto& b) {
      return compare_bits(device, str(name, " of ", rows, " rows in a graph").c_str(), a.tensor(),
                          b.tensor());
    };
    for (const std::string& difference :
         {compare("x", recorded.x, called.x), compare("latents", recorded.latents, called.latents),
          compare("keys", recorded.keys, called.keys), compare("q", recorded.q, called.q),
          compare("index_q", recorded.index_q, called.index_q),
          compare("index_weights", recorded.index_weights, called.index_weights)}) {
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

// Tokens at the start of a prompt, whose keys are one list, together and each alone.
std::string attention_of_a_token_does_not_depend_on_its_batch(Ops& ops) {
  constexpr std::int64_t kTokens = 300, kHeads = 8, kLatent = 512, kRope = 64, kKeys = 600,
                         kSlots = 10 * kPageSize;
  Device& device = ops.device();
  const Values latent(device, kTokens, kHeads * kLatent, 15),
      rope(device, kTokens, kHeads * kRope, 16);
  const Values cache(device, kSlots, kLatent + kRope, 17);
  const Values all(device, kTokens, kHeads * kLatent, 0), some(device, 60, kHeads * kLatent, 0);
  std::vector<std::int32_t> slots;
  for (std::int32_t t = 0; t < kTokens; ++t) {
    for (std::int32_t j = 0; j < kKeys; ++j) slots.push_back(j <= 2 * t ? kSlots - 1 - j : -1);
  }
  const Buffer buffer = device.allocate(slots.size() * sizeof(slots[0]));
  device.copy_in(buffer.data(), slots.data(), slots.size() * sizeof(slots[0]));
  const Tensor indices(buffer.data(), DType::kI32, {kTokens, kKeys});
  const auto attend = [&](std::int64_t first, std::int64_t count, const Tensor& out) {
    ops.sparse_mla({.q_latent = latent.tensor().slice(0, first, count).heads(kHeads),
                    .q_rope = rope.tensor().slice(0, first, count).heads(kHeads),
                    .kv = {.data = cache.tensor().data,
                           .format = LatentFormat::kBF16,
                           .num_slots = cache.tensor().dim(0),
                           .latent_dim = kLatent,
                           .rope_dim = kRope},
                    .indices = indices.slice(0, first, count),
                    .softmax_scale = 0.0625f,
                    .out = out.heads(kHeads)});
  };
  attend(0, kTokens, all.tensor());
  // Alone, and among as many as clusters of four and two thread blocks are for.
  for (const std::int64_t count : {1, 32, 60}) {
    for (const std::int64_t first : {0, 1, 31, 32, 120, 200, 240}) {
      const Tensor found = some.tensor().slice(0, 0, count);
      attend(first, count, found);
      const auto difference = compare_bits(device, str(count, " from token ", first).c_str(), found,
                                           all.tensor().slice(0, first, count));
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

// Experts of any number of rows, a weight each, against linear for the rows of each.
std::string grouped_linear_equals_linear_to_the_bit(Ops& ops) {
  constexpr std::int64_t kExperts = 6, kRows = 900, kN = 640;
  constexpr std::int32_t kOffsets[kExperts + 1] = {0, 1, 301, 301, 431, 439, 800};
  Device& device = ops.device();
  const Buffer offsets = device.allocate(sizeof(kOffsets)), sources = device.allocate(kRows * 4);
  device.copy_in(offsets.data(), kOffsets, sizeof(kOffsets));
  std::vector<std::int32_t> source(kRows);
  for (std::int32_t i = 0; i < kRows; ++i) source[i] = kRows - 1 - i;
  device.copy_in(sources.data(), source.data(), kRows * 4);
  for (const std::int64_t k : {256, 1000, 6144}) {
    for (const WeightFormat format :
         {WeightFormat::kBF16, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
      if (format == WeightFormat::kNvfp4 && k % 32 != 0) continue;
      const CodedWeight coded(device, format, kExperts * kN, k);
      Weight first = coded.weight();
      first.rows = kN, first.data = first.data.slice(0, 0, kN);
      WeightStack stack = {.format = format, .count = kExperts, .rows = kN, .cols = k};
      const auto stacked = [](const Tensor& all) {
        return all ? Tensor(all.data, all.dtype, {kExperts, all.dim(0) / kExperts, all.dim(1)})
                   : Tensor();
      };
      stack.data = stacked(coded.weight().data), stack.scale = stacked(coded.weight().scale);
      const std::vector<float> ones(kExperts, 0.5f);
      const Buffer global = device.allocate(kExperts * 4);
      device.copy_in(global.data(), ones.data(), kExperts * 4);
      if (format == WeightFormat::kNvfp4) {
        stack.global_scale = Tensor(global.data(), DType::kF32, {kExperts, 1});
      }
      const Values x(device, kRows, k, 18), grouped(device, kRows, kN, 0),
          each(device, kRows, kN, 0);
      const Values turned(device, kRows, k, 18);
      ops.gather_rows({.x = x.tensor(),
                       .rows = Tensor(sources.data(), DType::kI32, {kRows}),
                       .out = turned.tensor()});
      ops.grouped_linear({.x = x.tensor(),
                          .rows = Tensor(sources.data(), DType::kI32, {kRows}),
                          .offsets = Tensor(offsets.data(), DType::kI32, {kExperts + 1}),
                          .weights = stack,
                          .out = grouped.tensor()});
      for (std::int64_t e = 0; e < kExperts; ++e) {
        const std::int64_t begin = kOffsets[e], rows = kOffsets[e + 1] - begin;
        if (rows == 0) continue;
        Weight weight = coded.weight();
        weight.rows = kN, weight.data = weight.data.slice(0, e * kN, kN);
        if (weight.scale) {
          const std::int64_t blocks = weight.scale.dim(0) / kExperts;
          weight.scale = weight.scale.slice(0, e * blocks, blocks);
        }
        if (weight.global_scale) weight.global_scale = Tensor(global.data(), DType::kF32, {1});
        ops.linear({.x = turned.tensor().slice(0, begin, rows),
                    .weight = weight,
                    .out = each.tensor().slice(0, begin, rows)});
        const auto difference = compare_bits(
            device, str("expert ", e, ", k ", k, ", ", name_of(format)).c_str(),
            grouped.tensor().slice(0, begin, rows), each.tensor().slice(0, begin, rows));
        if (!difference.empty()) return difference;
      }
    }
  }
  return "";
}

// Tokens of two sequences, which see more keys than are selected, together and each alone.
std::string selection_of_a_token_does_not_depend_on_its_batch(Ops& ops) {
  constexpr std::int64_t kTokens = 403, kHeads = 32, kDim = 128, kKeys = 64, kPages = 48;
  Device& device = ops.device();
  const Values q(device, kTokens, kHeads * kDim, 21);
  const Values<float> weights(device, kTokens, kHeads, 22);
  std::vector<std::int32_t> positions, seqs, pages;
  for (std::int32_t t = 0; t < kTokens; ++t) {
    const bool second = t >= 250;
    seqs.push_back(second), positions.push_back(second ? 2400 + t : 3 * t);
  }
  for (std::int32_t i = 0; i < 2 * kPages; ++i) pages.push_back(2 * kPages - 1 - i);
  const auto put = [&](const std::vector<std::int32_t>& from) {
    Buffer buffer = device.allocate(from.size() * 4);
    device.copy_in(buffer.data(), from.data(), from.size() * 4);
    return buffer;
  };
  const Buffer positions_at = put(positions), seqs_at = put(seqs), pages_at = put(pages);
  const Buffer all_at = device.allocate(kTokens * kKeys * 4), one_at = device.allocate(kKeys * 4);
  for (const IndexFormat format : {IndexFormat::kBF16, IndexFormat::kFp8}) {
    IndexCache cache = {.format = format, .num_slots = 2 * kPages * kPageSize, .dim = kDim};
    const CodedWeight keys(device, WeightFormat::kBF16, 2 * kPages * kPageSize, kDim + 64);
    cache.data = keys.weight().data.data;
    const auto select = [&](std::int64_t first, std::int64_t count, std::byte* out) {
      BatchView batch = {};
      batch.positions = Tensor(positions_at.data() + first * 4, DType::kI32, {count});
      batch.seqs = Tensor(seqs_at.data() + first * 4, DType::kI32, {count});
      batch.page_table = Tensor(pages_at.data(), DType::kI32, {2, kPages});
      ops.select_keys({.q = q.tensor().slice(0, first, count).heads(kHeads),
                       .weights = weights.tensor().slice(0, first, count),
                       .batch = batch,
                       .cache = cache,
                       .out = Tensor(out, DType::kI32, {count, kKeys})});
    };
    select(0, kTokens, all_at.data());
    for (const std::int64_t token : {0, 21, 22, 100, 247, 249, 250, 251, 399, 402}) {
      select(token, 1, one_at.data());
      const auto difference =
          compare_bits(device, str("token ", token, ", keys in ", name_of(format)).c_str(),
                       Tensor(all_at.data() + token * kKeys * 4, DType::kI32, {1, kKeys}),
                       Tensor(one_at.data(), DType::kI32, {1, kKeys}));
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

// As on a device whose thread blocks meet no others, and hold fewer keys than these.
std::string keys_that_a_thread_block_cannot_hold_are_selected_alike(Ops& ops) {
  constexpr std::int64_t kTokens = 5, kHeads = 32, kDim = 128, kKeys = 2048, kPages = 400;
  auto& device = static_cast<CudaDevice&>(ops.device());
  const Values q(device, kTokens, kHeads * kDim, 80);
  const Values<float> weights(device, kTokens, kHeads, 81);
  std::vector<std::int32_t> numbers;  // positions, seqs, pages
  for (std::int32_t t = 0; t < kTokens; ++t) numbers.push_back(kPages * kPageSize - 1 - 5000 * t);
  numbers.resize(2 * kTokens);
  for (std::int32_t i = 0; i < kPages; ++i) numbers.push_back(kPages - 1 - i);
  const Buffer numbers_at = device.allocate(numbers.size() * 4),
               scores = device.allocate(kScoreBytes);
  device.copy_in(numbers_at.data(), numbers.data(), numbers.size() * 4);
  const CodedWeight keys(device, WeightFormat::kBF16, kPages * kPageSize, kDim);
  const Buffer found = device.allocate(2 * kTokens * kKeys * 4);
  const auto select = [&](const Arch& arch, std::int64_t row) {
    const Tensor out(found.data() + row * kKeys * 4, DType::kI32, {kTokens, kKeys});
    BatchView batch = {};
    batch.positions = Tensor(numbers_at.data(), DType::kI32, {kTokens});
    batch.seqs = Tensor(numbers_at.data() + kTokens * 4, DType::kI32, {kTokens});
    batch.page_table = Tensor(numbers_at.data() + 2 * kTokens * 4, DType::kI32, {1, kPages});
    const SelectKeysArgs args = {.q = q.tensor().heads(kHeads),
                                 .weights = weights.tensor(),
                                 .batch = batch,
                                 .cache = {.data = keys.weight().data.data,
                                           .format = IndexFormat::kBF16,
                                           .num_slots = kPages * kPageSize,
                                           .dim = kDim},
                                 .out = out};
    device.run("select_keys", [&](Gpu gpu) {
      gpu.arch = arch;
      launch_top_keys(args, reinterpret_cast<float*>(scores.data()), gpu);
    });
    return out;
  };
  const Tensor held = select(device.gpu().arch, 0), read_again = select(arch_of(86), kTokens);
  return compare_bits(device, "keys that are read again", read_again, held);
}

// The side of rank 0 in a group of two windows on this GPU, of which the other rank is lost.
class LostGroup {
 public:
  explicit LostGroup(Device& device)
      : device_(device),
        memory_(device.allocate(2 * kWindowBytes)),
        turns_(device.allocate(2 * kWindowBlocks * sizeof(std::uint32_t))),
        ended_(device.allocate_pinned(sizeof(std::uint32_t))) {
    GLINT_CHECK(memory_.data() && turns_.data() && ended_.data(), "no memory for a check");
    const std::vector<std::byte> zeros(turns_.bytes()), told(memory_.bytes(), std::byte{1});
    device.copy_in(turns_.data(), zeros.data(), zeros.size());
    device.copy_in(memory_.data(), told.data(), told.size());
    tell(0);
    *reinterpret_cast<std::uint32_t*>(ended_.data()) = 1;
  }
  // As if both ranks had told all blocks that they are in this turn.
  void tell(std::uint32_t turn) {
    const std::vector<std::uint32_t> flags(kFlagBytes / sizeof(turn), turn);
    for (int r = 0; r < 2; ++r) {
      device_.copy_in(memory_.data() + r * kWindowBytes, flags.data(), kFlagBytes);
    }
  }
  Windows windows() const {
    return {.at = {memory_.data(), memory_.data() + kWindowBytes},
            .turns = reinterpret_cast<std::uint32_t*>(turns_.data()),
            .ended = reinterpret_cast<const std::uint32_t*>(ended_.data()),
            .rank = 0,
            .size = 2};
  }

 private:
  Device& device_;
  Buffer memory_, turns_, ended_;
};

// Every call's, however many turns it takes, and also where the lost rank's are heard too late.
std::string a_group_that_has_ended_writes_zeros(Ops& ops) {
  constexpr std::int64_t kRows = 3000, kWidth = 1000;  // several turns
  constexpr std::int32_t kOffsets[2][3] = {{0, 1000, 2000}, {0, 1500, 3000}};
  auto& device = static_cast<CudaDevice&>(ops.device());
  LostGroup group(device);
  const Windows windows = group.windows();
  const Values<float> x(device, 2 * kRows, kWidth, 42), out(device, 2 * kRows, kWidth, 43);
  const Buffer dealt = device.allocate(sizeof kOffsets);
  device.copy_in(dealt.data(), kOffsets, sizeof kOffsets);
  const std::int32_t first[] = {0, 1, 2};
  const ExchangeArgs exchange = {.x = x.tensor(),
                                 .offsets = Tensor(dealt.data(), DType::kI32, {2, 3}),
                                 .first = first,
                                 .out = out.tensor().slice(0, 0, 2500)};
  ExchangeArgs back = exchange;
  back.out = out.tensor().slice(0, 0, 2000), back.backwards = true;
  const Tensor half = x.tensor().slice(0, 0, kRows), sum = out.tensor().slice(0, 0, kRows);
  const struct {
    const char* name;
    std::function<void(const Gpu&)> run;
    Tensor written;
  } calls[] = {
      {"all_gather", [&](const Gpu& gpu) { launch_all_gather(windows, half, out.tensor(), gpu); },
       out.tensor()},
      {"broadcast", [&](const Gpu& gpu) { launch_broadcast(windows, sum, 1, gpu); }, sum},
      {"exchange", [&](const Gpu& gpu) { launch_exchange(windows, exchange, gpu); }, exchange.out},
      {"exchange backwards", [&](const Gpu& gpu) { launch_exchange(windows, back, gpu); },
       back.out},
      {"all_reduce, one shot",
       [&](const Gpu& gpu) { launch_all_reduce(windows, half, sum, gpu, Shots::kOne); }, sum},
      {"all_reduce, two shots",
       [&](const Gpu& gpu) { launch_all_reduce(windows, half, sum, gpu, Shots::kTwo); }, sum},
      {"reduce_scatter",
       [&](const Gpu& gpu) { launch_reduce_scatter(windows, x.tensor(), sum, gpu); }, sum}};
  for (const bool late : {false, true}) {
    if (late) group.tell(1 << 20);
    for (const auto& call : calls) {
      const Values<float> old(device, 2 * kRows, kWidth, 44);
      device.copy(out.tensor().data, old.tensor().data, old.tensor().bytes().size());
      device.run(call.name, call.run);
      for (const std::byte b : bytes_of(device, call.written)) {
        if (b != std::byte{}) return str(call.name, late ? " hears the lost" : " is not of zeros");
      }
    }
  }
  return "";
}

// Groups of more GPUs than windows are made for, as several nodes are.
std::string parts_of_any_number_add_up_as_the_tree_has_it(Ops& ops) {
  constexpr std::int64_t kSize = 1500;
  auto& device = static_cast<CudaDevice&>(ops.device());
  for (const int count : {1, 2, 7, 8, 9, 16, 21}) {
    const Values<float> parts(device, count, kSize, 23), sum(device, 1, kSize, 24);
    device.run("add_parts", [&](const Gpu& gpu) {
      launch_add_parts(parts.tensor().ptr<float>(), count, kSize, sum.vector(), gpu);
    });
    std::vector<float> given(static_cast<std::size_t>(count * kSize)), got(kSize);
    device.copy_out(given.data(), parts.tensor().data, given.size() * sizeof(float));
    device.copy_out(got.data(), sum.tensor().data, got.size() * sizeof(float));
    for (std::int64_t i = 0; i < kSize; ++i) {
      const float expected = tree_sum(
          count, [&](int part) { return given[static_cast<std::size_t>(part * kSize + i)]; });
      if (got[static_cast<std::size_t>(i)] != expected)
        return str("the sum of ", count, " parts differs from the tree's at ", i);
    }
  }
  return "";
}

}  // namespace

std::span<const DeviceCheck> device_checks() {
  static constexpr DeviceCheck kChecks[] = {
      {"copies_read_the_host_before_they_return", copies_read_the_host_before_they_return},
      {"a_row_of_linear_does_not_depend_on_its_batch",
       a_row_of_linear_does_not_depend_on_its_batch},
      {"grouped_linear_equals_linear_to_the_bit", grouped_linear_equals_linear_to_the_bit},
      {"selection_of_a_token_does_not_depend_on_its_batch",
       selection_of_a_token_does_not_depend_on_its_batch},
      {"keys_that_a_thread_block_cannot_hold_are_selected_alike",
       keys_that_a_thread_block_cannot_hold_are_selected_alike},
      {"linear_does_not_depend_on_alignment", linear_does_not_depend_on_alignment},
      {"rms_norm_does_not_depend_on_alignment", rms_norm_does_not_depend_on_alignment},
      {"dense_ffn_equals_its_composition_to_the_bit", dense_ffn_equals_its_composition_to_the_bit},
      {"moe_has_the_same_bits_in_a_graph_and_in_parts",
       moe_has_the_same_bits_in_a_graph_and_in_parts},
      {"attention_in_has_the_same_bits_in_a_graph", attention_in_has_the_same_bits_in_a_graph},
      {"attention_of_a_token_does_not_depend_on_its_batch",
       attention_of_a_token_does_not_depend_on_its_batch},
      {"parts_of_any_number_add_up_as_the_tree_has_it",
       parts_of_any_number_add_up_as_the_tree_has_it},
      {"a_group_that_has_ended_writes_zeros", a_group_that_has_ended_writes_zeros},
      {"memory_is_freed_while_another_thread_records",
       memory_is_freed_while_another_thread_records},
      {"too_large_an_allocation_is_an_empty_buffer", too_large_an_allocation_is_an_empty_buffer}};
  return kChecks;
}

}  // namespace glint::cuda
