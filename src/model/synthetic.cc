#include "model/synthetic.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/hash.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/formats.h"
#include "model/weight_sampler.h"

namespace glint {
namespace {

// Elements that a thread makes at a time: 4 MB of f32, which stays in cache until it is encoded.
constexpr std::int64_t kPartElements = std::int64_t{1} << 20;
// As of a checkpoint that was not calibrated: nothing is clipped.
constexpr float kInputScale = 1;

struct Spread {
  float mean = 0, deviation = 1;
};

Spread spread_of(const ModelTensor& tensor, const ModelConfig& config) {
  const auto ends_with = [&](std::string_view end) { return tensor.name.ends_with(end); };
  if (ends_with(".e_score_correction_bias")) return {0, 0.05f};
  if (ends_with(".k_norm.bias")) return {0, 0.1f};
  if (!tensor.is_matrix()) return {1, 0.05f};
  const bool is_embedding = tensor.role == TensorRole::kEmbedding;
  if (is_embedding && !config.tie_word_embeddings) return {0, 1};
  double gain = 1;
  // The residual stream gets 2 * layers of these outputs: their sum is of its own size.
  if (ends_with(".o_proj") || ends_with(".down_proj")) {
    gain = 1 / std::sqrt(2.0 * config.num_hidden_layers);
  }
  // Attention and routing that prefer some keys and experts, and logits that prefer some tokens.
  if (ends_with(".q_b_proj") || tensor.role == TensorRole::kRouter) gain = 1.5;
  if (tensor.role == TensorRole::kHead || is_embedding) gain = 3;
  return {0, static_cast<float>(gain / std::sqrt(static_cast<double>(tensor.cols)))};
}

std::int64_t rows_per_part(const ModelTensor& tensor, WeightFormat format) {
  const std::int64_t rows = std::max<std::int64_t>(kPartElements / tensor.cols, 1);
  if (format != WeightFormat::kFp8Block) return rows;
  return std::max<std::int64_t>(rows / kFp8Block, 1) * kFp8Block;
}

}  // namespace

// Makes parts; one per thread.
class SyntheticModel::Maker {
 public:
  Maker(const SyntheticModel& model, const WeightSampler& sampler, const Write& write)
      : model_(model), sampler_(sampler), write_(write) {}

  Status make(const Part& part) {
    unit_ = &model_.units_[part.unit];
    tensor_ = &model_.table_[unit_->tensor];
    stream_ = fnv1a(tensor_->name_of_copy(unit_->expert));  // one for every name
    switch (model_.format_of(*unit_)) {
      case WeightFormat::kFp8Block:
        return make_fp8(part);
      case WeightFormat::kNvfp4:
        return make_nvfp4(part);
      case WeightFormat::kBF16:
      case WeightFormat::kF32:
        return make_plain(part);
    }
    return Ok{};
  }

 private:
  // values_ = rows [begin, end), rounded to BF16 as the release that all others are made from is.
  void sample(std::int64_t begin, std::int64_t end) {
    const Spread spread = spread_of(*tensor_, model_.config_);
    values_.resize(static_cast<std::size_t>((end - begin) * tensor_->cols));
    sampler_.fill({.seed = model_.seed_,
                   .stream = stream_,
                   .begin = begin * tensor_->cols,
                   .count = (end - begin) * tensor_->cols,
                   .mean = spread.mean,
                   .deviation = spread.deviation},
                  values_.data());
    for (float& value : values_) value = to_float(to_bf16(value));
  }

  Status make_plain(const Part& part) {
    sample(part.row_begin, part.row_end);
    if (model_.specs_[unit_->first_spec].type == StoredType::kF32) {
      return write(0, part.row_begin * tensor_->cols * 4, std::span(values_));
    }
    words_.resize(values_.size());
    for (std::size_t i = 0; i < values_.size(); ++i) words_[i] = to_bf16(values_[i]);
    return write(0, part.row_begin * tensor_->cols * 2, std::span(words_));
  }

  Status make_fp8(const Part& part) {
    const std::int64_t rows = part.row_end - part.row_begin, cols = tensor_->cols;
    const std::int64_t scale_cols = fp8_blocks(cols);
    sample(part.row_begin, part.row_end);
    codes_.resize(values_.size());
    scales_.resize(static_cast<std::size_t>(fp8_blocks(rows) * scale_cols));
    encode_fp8_block(values_.data(), rows, cols, codes_.data(), scales_.data());
    GLINT_TRY_STATUS(write(0, part.row_begin * cols, std::span(codes_)));
    return write(1, part.row_begin / kFp8Block * scale_cols * 4, std::span(scales_));
  }

  Status make_nvfp4(const Part& part) {
    const std::int64_t rows = part.row_end - part.row_begin, cols = tensor_->cols;
    sample(part.row_begin, part.row_end);
    codes_.resize(values_.size() / 2);
    group_scales_.resize(values_.size() / kNvfp4Group);
    const float global_scale = nvfp4_global_scale(largest_of_expert());
    encode_nvfp4(values_.data(), rows, cols, global_scale, codes_.data(), group_scales_.data());
    GLINT_TRY_STATUS(write(0, part.row_begin * cols / 2, std::span(codes_)));
    GLINT_TRY_STATUS(write(1, part.row_begin * cols / kNvfp4Group, std::span(group_scales_)));
    if (part.row_begin > 0) return Ok{};
    const float scales[] = {global_scale, kInputScale};
    GLINT_TRY_STATUS(write(2, 0, std::span(scales).subspan(0, 1)));
    return write(3, 0, std::span(scales).subspan(1, 1));
  }

  // Largest weight that weight_scale_2 is made for: a bound, the same for gate and up of an expert,
  // which engines load with one scale, and another for every expert, so that mixed-up scales show.
  float largest_of_expert() const {
    const std::string name = tensor_->name_of_copy(unit_->expert);
    const std::uint64_t stream = fnv1a(name.substr(0, name.rfind('.')));
    const float slack = 1 + 0.5f * static_cast<float>(stream >> 40) / static_cast<float>(1 << 24);
    return slack * sampler_.largest() * spread_of(*tensor_, model_.config_).deviation;
  }

  template <class T, std::size_t N>
  Status write(std::size_t nth_spec, std::int64_t offset, std::span<T, N> values) const {
    return write_(unit_->first_spec + nth_spec, offset, std::as_bytes(values));
  }

  const SyntheticModel& model_;
  const WeightSampler& sampler_;
  const Write& write_;
  const Unit* unit_ = nullptr;
  const ModelTensor* tensor_ = nullptr;
  std::uint64_t stream_ = 0;
  std::vector<float> values_, scales_;
  std::vector<BF16> words_;
  std::vector<std::uint8_t> codes_, group_scales_;
};

Result<SyntheticModel> SyntheticModel::plan(const ModelConfig& config, Release release,
                                            std::uint64_t seed) {
  SyntheticModel model(config, release, seed);
  model.table_ = model_tensors(config);
  std::int64_t num_units = 0;
  bool has_nvfp4 = false;
  for (const ModelTensor& tensor : model.table_) {
    num_units += tensor.num_copies();
    const bool is_nvfp4 = format_in(release, tensor, config) == WeightFormat::kNvfp4;
    has_nvfp4 |= is_nvfp4;
    if (is_nvfp4 && tensor.cols % kNvfp4Group) {
      return invalid(str(tensor.name, " has ", tensor.cols,
                         " inputs, no multiple of 16, as groups of nvfp4 need"));
    }
  }
  if (release == Release::kNvfp4 && !has_nvfp4) {
    return invalid("no layer has routed experts, and nvfp4 is the format of those alone");
  }
  if (num_units > kMaxTensors) {
    return invalid(str("the model has ", num_units, " tensors; expected at most ", kMaxTensors));
  }
  for (std::size_t t = 0; t < model.table_.size(); ++t) {
    for (int expert = 0; expert < model.table_[t].num_copies(); ++expert) model.add_unit(t, expert);
  }
  return model;
}

void SyntheticModel::add_unit(std::size_t index, int expert) {
  const ModelTensor& tensor = table_[index];
  units_.push_back({.tensor = index, .expert = expert, .first_spec = specs_.size()});
  const WeightFormat format = format_of(units_.back());
  append_specs(tensor, expert, format, specs_);
  const std::int64_t rows = tensor.is_matrix() ? tensor.rows : 1;
  const std::int64_t step = rows_per_part(tensor, format);
  for (std::int64_t row = 0; row < rows; row += step) {
    parts_.push_back(
        {.unit = units_.size() - 1, .row_begin = row, .row_end = std::min(row + step, rows)});
  }
}

std::int64_t SyntheticModel::bytes() const {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : specs_) bytes += spec.bytes();
  return bytes;
}

Status SyntheticModel::generate(ThreadPool& pool, const Write& write, const BytesDone& done) const {
  const WeightSampler sampler;
  const Write counted = [&](std::size_t tensor, std::int64_t offset,
                            std::span<const std::byte> bytes) -> Status {
    GLINT_TRY_STATUS(write(tensor, offset, bytes));
    if (!done || done(std::ssize(bytes))) return Ok{};
    return unavailable("interrupted");
  };
  std::vector<Maker> makers(static_cast<std::size_t>(pool.num_threads()),
                            Maker(*this, sampler, counted));
  std::vector<Status> results(makers.size(), Status(Ok{}));
  std::atomic<bool> failed = false;
  pool.run_dynamic(std::ssize(parts_), [&](std::int64_t part, int thread) {
    if (failed.load(std::memory_order_relaxed)) return;
    const auto t = static_cast<std::size_t>(thread);
    results[t] = makers[t].make(parts_[static_cast<std::size_t>(part)]);
    if (!results[t].ok()) failed = true;
  });
  for (Status& result : results) GLINT_TRY_STATUS(std::move(result));
  return Ok{};
}

}  // namespace glint
