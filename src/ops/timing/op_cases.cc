#include "ops/timing/op_cases.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <span>

#include "base/random.h"
#include "base/seconds.h"
#include "base/statistics.h"
#include "base/str.h"
#include "tensor/make_stack.h"

namespace glint {
namespace {

// GLM-5.
constexpr std::int64_t kHidden = 6144, kQLora = 2048, kLatent = 512, kRope = 64, kNope = 192,
                       kValue = 256, kHeads = 64, kIndexHeads = 32, kIndexDim = 128, kTopK = 2048,
                       kExperts = 256, kChosen = 8, kExpertWidth = 2048, kDenseWidth = 12288,
                       kVocabulary = 154880;
constexpr double kBeyondCaches = 512e6;  // bytes
constexpr int kMostSets = 256;

// Fills `count` bytes with `block`, again and again.
void fill(Device& device, std::byte* to, std::int64_t count, std::span<const std::byte> block) {
  device.copy_in(to, block.data(), block.size());
  for (std::int64_t done = std::ssize(block); done < count; done *= 2) {
    device.copy(to + done, to, static_cast<std::size_t>(std::min(done, count - done)));
  }
}

class Cases {
 public:
  Cases(Ops& ops, const OpMemory& memory, const OpSizes& sizes, WeightFormat format,
        std::vector<Buffer>& keep)
      : ops_(ops), memory_(memory), sizes_(sizes), format_(format), keep_(keep) {}

  std::vector<OpCase> all();

 private:
  // The next bytes of memory that holds so much, from its begin again when it ends.
  std::byte* next(const std::byte* base, std::int64_t size, std::int64_t& at, std::int64_t bytes) {
    if (bytes > size) fits_ = false;
    if (at + bytes > size) at = 0;
    std::byte* const here = const_cast<std::byte*>(base) + at;
    at += (bytes + 255) / 256 * 256;
    return here;
  }
  Tensor numbers(DType dtype, std::initializer_list<std::int64_t> dims) {
    const Tensor shape(nullptr, dtype, dims);
    return Tensor(next(memory_.codes(), OpMemory::kCodes, codes_at_, shape.size() * size_of(dtype)),
                  dtype, dims);
  }
  Tensor scales(DType dtype, std::initializer_list<std::int64_t> dims) {
    const Tensor shape(nullptr, dtype, dims);
    return Tensor(
        next(memory_.scales(), OpMemory::kScales, scales_at_, shape.size() * size_of(dtype)), dtype,
        dims);
  }
  Tensor result(DType dtype, std::initializer_list<std::int64_t> dims) {
    const Tensor shape(nullptr, dtype, dims);
    return Tensor(
        next(memory_.results(), OpMemory::kResults, results_at_, shape.size() * size_of(dtype)),
        dtype, dims);
  }
  Tensor ints(const std::vector<std::int32_t>& values, std::initializer_list<std::int64_t> dims) {
    keep_.push_back(memory_.device().allocate(values.size() * 4));
    memory_.device().copy_in(keep_.back().data(), values.data(), values.size() * 4);
    return Tensor(keep_.back().data(), DType::kI32, dims);
  }

  WeightStack stack(WeightFormat format, std::int64_t count, std::int64_t n, std::int64_t k) {
    using Dims = std::initializer_list<std::int64_t>;
    return make_stack(
        format, count, n, k, [this](DType dtype, Dims dims) { return numbers(dtype, dims); },
        [this](DType dtype, Dims dims) { return scales(dtype, dims); });
  }
  Weight weight(WeightFormat format, std::int64_t n, std::int64_t k) {
    return stack(format, 1, n, k)[0];
  }

  // A case whose sets `make(set)` are {arguments' cost, call}.
  template <class Make>
  void add(std::string name, double bytes_a_set, Make make) {
    OpCase op = {.name = std::move(name)};
    op.sets = static_cast<int>(std::clamp(kBeyondCaches / bytes_a_set, 1.0, double{kMostSets}));
    std::vector<std::function<void()>> calls;
    fits_ = true;
    for (int set = 0; set < op.sets; ++set) {
      auto [cost, call] = make();
      op.cost = cost;
      calls.push_back(std::move(call));
    }
    if (fits_) op.run = [calls](int set) { calls[static_cast<std::size_t>(set)](); };
    cases_.push_back(std::move(op));
  }

  void add_linear(const char* name, WeightFormat format, std::int64_t n, std::int64_t k,
                  DType x = DType::kBF16, DType out = DType::kBF16) {
    const double bytes = static_cast<double>(bytes_of(weight(format, n, k)));
    add(str(name, ", ", glint::name_of(format)), bytes, [=, this] {
      const LinearArgs args = {.x = numbers(x, {sizes_.batch, k}),
                               .weight = weight(format, n, k),
                               .out = result(out, {sizes_.batch, n})};
      return std::pair{cost(args), [=, ops = &ops_] { ops->linear(args); }};
    });
  }

  void add_per_head(const char* name, std::int64_t b, std::int64_t a) {
    const std::int64_t heads = kHeads / sizes_.ranks;
    add(str(name, ", bf16"), 2.0 * static_cast<double>(heads * a * b), [=, this] {
      const PerHeadArgs args = {.x = numbers(DType::kBF16, {sizes_.batch, heads, a}),
                                .weights = stack(WeightFormat::kBF16, heads, b, a),
                                .out = result(DType::kBF16, {sizes_.batch, heads, b})};
      return std::pair{cost(args), [=, ops = &ops_] { ops->per_head(args); }};
    });
  }

  // Every token chooses kChosen experts, all equally likely.
  struct Routing {
    std::vector<std::int32_t> rows, offsets, ids;
  };
  Routing routing() {
    std::vector<std::vector<std::int32_t>> tokens(kExperts);
    Routing r;
    for (std::int64_t t = 0; t < sizes_.batch; ++t) {
      std::vector<std::int32_t> experts(kExperts);
      std::iota(experts.begin(), experts.end(), 0);
      for (int j = 0; j < kChosen; ++j) {
        std::swap(experts[j], experts[j + random_.below(kExperts - j)]);
        tokens[experts[j]].push_back(static_cast<std::int32_t>(t));
        r.ids.push_back(experts[j]);
      }
    }
    r.offsets.push_back(0);
    for (const auto& of_expert : tokens) {
      r.rows.insert(r.rows.end(), of_expert.begin(), of_expert.end());
      r.offsets.push_back(static_cast<std::int32_t>(r.rows.size()));
    }
    return r;
  }

  void add_grouped(const char* name, std::int64_t n, std::int64_t k, bool gathered) {
    const WeightStack experts = stack(format_, kExperts, n, k);
    const double touched = std::min<double>(kExperts, static_cast<double>(sizes_.batch * kChosen));
    add(str(name, ", ", glint::name_of(format_)),
        static_cast<double>(bytes_of(experts)) / kExperts * touched, [=, this] {
          const Routing r = routing();
          const std::int64_t rows = std::ssize(r.rows);
          GroupedLinearArgs args = {.x = numbers(DType::kBF16, {gathered ? sizes_.batch : rows, k}),
                                    .offsets = Tensor(const_cast<std::int32_t*>(r.offsets.data()),
                                                      DType::kI32, {kExperts + 1}),
                                    .weights = experts,
                                    .out = result(DType::kBF16, {rows, n})};
          if (gathered) args.rows = ints(r.rows, {rows});
          const OpCost least = cost(args);
          args.offsets = ints(r.offsets, {kExperts + 1});
          return std::pair{least, [=, ops = &ops_] { ops->grouped_linear(args); }};
        });
  }

  void add_moe_rows() {
    const std::int64_t B = sizes_.batch, rows = B * kChosen, width = kExpertWidth / sizes_.ranks;
    add("silu_mul of experts", 3e6, [=, this] {
      const SiluMulArgs args = {.gate = numbers(DType::kBF16, {rows, width}),
                                .up = numbers(DType::kBF16, {rows, width}),
                                .out = result(DType::kBF16, {rows, width})};
      return std::pair{cost(args), [=, ops = &ops_] { ops->silu_mul(args); }};
    });
    add("route", 3e6, [=, this] {
      const RouteArgs args = {.logits = numbers(DType::kF32, {B, kExperts}),
                              .bias = numbers(DType::kF32, {kExperts}),
                              .ids = result(DType::kI32, {B, kChosen}),
                              .weights = result(DType::kF32, {B, kChosen})};
      return std::pair{cost(args), [=, ops = &ops_] { ops->route(args); }};
    });
    const Routing r = routing();
    const Tensor ids = ints(r.ids, {B, kChosen}), places = result(DType::kI32, {B, kChosen});
    add("permute", 3e6, [=, this] {
      const PermuteArgs args = {.ids = ids,
                                .rows = result(DType::kI32, {rows}),
                                .offsets = result(DType::kI32, {kExperts + 1}),
                                .places = places};
      return std::pair{cost(args), [=, ops = &ops_] { ops->permute(args); }};
    });
    std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    const Tensor all = ints(order, {B, kChosen});
    add("combine", 3e6, [=, this] {
      const CombineArgs args = {.y = numbers(DType::kBF16, {rows, kHidden}),
                                .places = all,
                                .weights = scales(DType::kF32, {B, kChosen}),
                                .shared = numbers(DType::kBF16, {B, kHidden}),
                                .out = result(DType::kBF16, {B, kHidden})};
      return std::pair{cost(args), [=, ops = &ops_] { ops->combine(args); }};
    });
    add("rms_norm", 3e6, [=, this] {
      const RmsNormArgs args = {.x = result(DType::kF32, {B, kHidden}),
                                .delta = numbers(DType::kBF16, {B, kHidden}),
                                .weight = numbers(DType::kBF16, {kHidden}),
                                .out = result(DType::kBF16, {B, kHidden})};
      return std::pair{cost(args), [=, ops = &ops_] { ops->rms_norm(args); }};
    });
  }

  void add_attention(LatentFormat format) {
    const std::int64_t B = sizes_.batch, heads = kHeads / sizes_.ranks;
    LatentCache cache = {.format = format, .latent_dim = int{kLatent}, .rope_dim = int{kRope}};
    const std::int64_t keys = std::min(sizes_.context, kTopK);
    cache.num_slots = B * sizes_.context;
    const std::int64_t bytes = cache.num_slots * cache.row_bytes();
    std::vector<std::int32_t> slots;
    for (std::int64_t t = 0; t < B; ++t) {  // ascending, some left out
      for (std::int64_t j = 0; j < kTopK; ++j) {
        slots.push_back(static_cast<std::int32_t>(
            j < keys ? t * sizes_.context + j * sizes_.context / keys : -1));
      }
    }
    const Tensor indices = ints(slots, {B, kTopK});
    add(str("sparse_mla, ", glint::name_of(format), " cache"), static_cast<double>(bytes),
        [=, this] {
          SparseMlaArgs args = {.q_latent = numbers(DType::kBF16, {B, heads, kLatent}),
                                .q_rope = numbers(DType::kBF16, {B, heads, kRope}),
                                .kv = cache,
                                .indices = indices,
                                .softmax_scale = 1.0f / 16,
                                .out = result(DType::kBF16, {B, heads, kLatent})};
          args.kv.data = next(memory_.codes(), OpMemory::kCodes, codes_at_, bytes);
          return std::pair{cost(args), [=, ops = &ops_] { ops->sparse_mla(args); }};
        });
  }

  void add_selection() {
    const std::int64_t B = sizes_.batch;
    const std::int64_t pages = pages_of(sizes_.context);
    IndexCache cache = {.format = IndexFormat::kFp8, .dim = int{kIndexDim}};
    cache.num_slots = B * pages * kPageSize;
    const std::int64_t bytes = B * pages * cache.page_bytes();
    std::vector<std::int32_t> positions(static_cast<std::size_t>(B),
                                        static_cast<std::int32_t>(sizes_.context - 1)),
        seqs(static_cast<std::size_t>(B)), table(static_cast<std::size_t>(B * pages));
    std::iota(seqs.begin(), seqs.end(), 0);
    std::iota(table.begin(), table.end(), 0);
    const BatchView batch = {.positions = ints(positions, {B}),
                             .seqs = ints(seqs, {B}),
                             .page_table = ints(table, {B, pages})};
    add("select_keys, fp8 keys", static_cast<double>(bytes), [=, this] {
      SelectKeysArgs args = {.q = numbers(DType::kBF16, {B, kIndexHeads, kIndexDim}),
                             .weights = numbers(DType::kF32, {B, kIndexHeads}),
                             .batch = batch,
                             .cache = cache,
                             .out = result(DType::kI32, {B, kTopK})};
      args.cache.data = next(memory_.codes(), OpMemory::kCodes, codes_at_, bytes);
      const auto n = static_cast<double>(B), visible = static_cast<double>(sizes_.context);
      const OpCost least =
          cost(args, Assume{.visible = visible, .sequences = n, .longest = visible});
      return std::pair{least, [=, ops = &ops_] { ops->select_keys(args); }};
    });
  }

  Ops& ops_;
  const OpMemory& memory_;
  const OpSizes sizes_;
  const WeightFormat format_;
  std::vector<Buffer>& keep_;
  std::int64_t codes_at_ = 0, scales_at_ = 0, results_at_ = 0;
  bool fits_ = true;  // what the present case has taken
  Random random_{1};
  std::vector<OpCase> cases_;
};

std::vector<OpCase> Cases::all() {
  const std::int64_t ranks = sizes_.ranks, heads = kHeads / ranks, width = kExpertWidth / ranks;
  add_linear("q_a", format_, kQLora, kHidden);
  add_linear("q_b", format_, heads * (kNope + kRope), kQLora);
  add_linear("kv_a", format_, kLatent + kRope, kHidden);
  add_linear("o", format_, kHidden, heads * kValue);
  add_linear("index queries", format_, kIndexHeads * kIndexDim, kQLora);
  add_linear("dense gate", format_, kDenseWidth / ranks, kHidden);
  add_linear("dense down", format_, kHidden, kDenseWidth / ranks);
  add_linear("shared gate", format_, width, kHidden);
  add_linear("shared down", format_, kHidden, width);
  add_grouped("experts gate", width, kHidden, true);
  add_grouped("experts down", kHidden, width, false);
  if (format_ != WeightFormat::kBF16) return std::move(cases_);
  add_linear("head", format_, kVocabulary / ranks, kHidden, DType::kBF16, DType::kF32);
  add_linear("router", WeightFormat::kBF16, kExperts, kHidden, DType::kF32, DType::kF32);
  add_per_head("w_uk", kLatent, kNope);
  add_per_head("w_uv", kValue, kLatent);
  add_attention(LatentFormat::kBF16);
  add_attention(LatentFormat::kFp8);
  add_selection();
  add_moe_rows();
  return std::move(cases_);
}

}  // namespace

Result<OpMemory> OpMemory::make(Device& device) {
  OpMemory memory;
  memory.device_ = &device;
  memory.codes_ = device.allocate(kCodes);
  memory.scales_ = device.allocate(kScales);
  memory.results_ = device.allocate(kResults);
  if (!memory.codes_.data() || !memory.scales_.data() || !memory.results_.data()) {
    return exhausted(str("bench ops needs ", (kCodes + kScales + kResults) >> 20,
                         " MiB of memory on ", device.name(), "; free some"));
  }
  // Upper bytes of a bf16 are 0x3b at most: its magnitude is below 1/64, also that of an f32.
  constexpr std::int64_t kBlock = 16 << 20;
  std::vector<std::byte> block(kBlock);
  Random random(7);
  for (std::size_t i = 0; i < block.size(); i += 4) {
    const std::uint32_t bits = random.bits();
    const std::uint32_t word = (bits & 0x80ff80ffu) | 0x38003800u | (bits >> 1 & 0x03000300u);
    std::memcpy(&block[i], &word, 4);
    // A NaN as e4m3 becomes its neighbour.
    for (std::size_t j = i; j < i + 4; ++j) {
      if ((block[j] & std::byte{0x7f}) == std::byte{0x7f}) block[j] ^= std::byte{1};
    }
  }
  fill(device, memory.codes_.data(), kCodes, block);
  for (std::size_t i = 0; i < block.size(); i += 4) {
    const std::uint32_t word = 0x3c383830u | (random.bits() & 0x00070707u);
    std::memcpy(&block[i], &word, 4);
  }
  fill(device, memory.scales_.data(), kScales, block);
  fill(device, memory.results_.data(), kResults, block);
  device.synchronize();
  return memory;
}

std::vector<OpCase> op_cases(Ops& ops, const OpMemory& memory, const OpSizes& sizes,
                             WeightFormat format, std::vector<Buffer>& keep) {
  return Cases(ops, memory, sizes, format, keep).all();
}

double seconds_of(Device& device, const OpCase& op) {
  using Clock = std::chrono::steady_clock;
  constexpr int kSamples = 5;
  constexpr double kSample = 4e-3;  // seconds: many times what a launch's start takes
  const int calls = std::max(op.sets, 4);
  const auto run_all = [&] {
    for (int i = 0; i < calls; ++i) op.run(i % op.sets);
  };
  run_all();
  device.synchronize();
  const std::unique_ptr<Graph> graph = device.capture(run_all);
  const auto time = [&](int repeats) {
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) graph ? graph->launch() : run_all();
    device.synchronize();
    return seconds_since(begin) / repeats / calls;
  };
  const int repeats = static_cast<int>(std::clamp(kSample / (time(1) * calls), 1.0, 1e3));
  std::vector<double> seconds;
  for (int sample = 0; sample < kSamples; ++sample) seconds.push_back(time(repeats));
  return median(std::move(seconds));
}

double copy_speed(const OpMemory& memory) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  constexpr int kCopies = 8;
  std::byte* const to = const_cast<std::byte*>(memory.codes());
  std::vector<double> seconds;
  for (int sample = 0; sample < 3; ++sample) {
    memory.device().synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCopies; ++i) memory.device().copy(to + kBytes, to, std::size_t{kBytes});
    memory.device().synchronize();
    seconds.push_back(seconds_since(begin) / kCopies);
  }
  return 2.0 * kBytes / *std::min_element(seconds.begin(), seconds.end());
}

}  // namespace glint
