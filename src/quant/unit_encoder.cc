#include "quant/unit_encoder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/ceil_div.h"
#include "base/file.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/verify.h"

namespace glint {
namespace {

// A thread makes so many at a time: their f32 copy stays in the second-level cache, and a matrix of
// an expert is enough parts for many cores.
constexpr std::int64_t kPartElements = std::int64_t{1} << 17;
constexpr std::size_t kCopyBytes = std::size_t{4} << 20;

double sum_of_squares(const std::vector<float>& values) {
  double sums[8] = {};
  const std::size_t whole = values.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) sums[j] += double{values[i + j]} * double{values[i + j]};
  }
  for (std::size_t i = whole; i < values.size(); ++i) sums[0] += double{values[i]} * values[i];
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

void ErrorSum::add(const ErrorSum& other) {
  squared_error += other.squared_error;
  squared_weights += other.squared_weights;
  weights += other.weights;
}

UnitEncoder::UnitEncoder(const Recipe& recipe, Checkpoint& checkpoint, ThreadPool& pool,
                         Sources sources)
    : recipe_(recipe),
      checkpoint_(checkpoint),
      pool_(pool),
      isa_(encode_isas().back()),
      sources_(sources),
      scratch_(static_cast<std::size_t>(pool.num_threads())) {}

Status UnitEncoder::encode(const Unit& unit, const Write& write, ErrorSums& errors) {
  if (unit.kind == UnitKind::kCopy) return copy(unit, write);
  GLINT_TRY_STATUS(open_weights(unit));
  plan_parts(unit.kind == UnitKind::kFp8 ? kFp8Block : 1);
  sums_.assign(parts_.size(), {});
  switch (unit.kind) {
    case UnitKind::kNvfp4:
      GLINT_TRY_STATUS(find_ranges(unit));
      GLINT_TRY_STATUS(encode_nvfp4(unit, write));
      break;
    case UnitKind::kFp8:
      GLINT_TRY_STATUS(encode_fp8(unit, write));
      break;
    case UnitKind::kCopy:
    case UnitKind::kDequantize:
      GLINT_TRY_STATUS(dequantize(unit, write));
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    // Where the square of an error is beyond f32, so may be the number that is written.
    if (!std::isfinite(sums_[i].squared_error)) return refused_value(unit, i);
    errors[unit.weights[parts_[i].weight].role].add(sums_[i]);
  }
  for (const Weight& weight : weights_) {
    if (sources_ == Sources::kKeep) break;
    discard_pages(weight.data.bytes());
    if (weight.scale) discard_pages(weight.scale.bytes());
  }
  weights_.clear();
  checkpoint_.release_copies();
  return Ok{};
}

Status UnitEncoder::copy(const Unit& unit, const Write& write) {
  const StoredTensor& tensor = *unit.copied;
  parts_.clear();
  for (std::size_t at = 0; at < tensor.bytes.size(); at += kCopyBytes) {
    const std::size_t end = std::min(at + kCopyBytes, tensor.bytes.size());
    parts_.push_back(
        {.row_begin = static_cast<std::int64_t>(at), .row_end = static_cast<std::int64_t>(end)});
  }
  GLINT_TRY_STATUS(run_parts([&](std::size_t i, Scratch&) -> Status {
    const auto begin = static_cast<std::size_t>(parts_[i].row_begin);
    const auto bytes =
        tensor.bytes.subspan(begin, static_cast<std::size_t>(parts_[i].row_end) - begin);
    if (const auto at = first_non_finite(tensor.type, bytes)) {
      const auto before = static_cast<std::int64_t>(begin) * 8 / bits_of(tensor.type);
      return invalid(str(checkpoint_.source().file_name(tensor.file), ": tensor ",
                         quoted(tensor.name), " is NaN or infinite at index ", before + *at,
                         "; expected finite numbers"));
    }
    GLINT_TRY_STATUS(write(unit.first_spec, parts_[i].row_begin, bytes));
    if (sources_ == Sources::kDiscard) discard_pages(bytes);
    return Ok{};
  }));
  return Ok{};
}

Status UnitEncoder::open_weights(const Unit& unit) {
  weights_.clear();
  for (const UnitWeight& weight : unit.weights) {
    GLINT_TRY(Weight opened, checkpoint_.weight(weight.name, weight.rows, weight.cols));
    weights_.push_back(opened);
  }
  return Ok{};
}

void UnitEncoder::plan_parts(std::int64_t rows_multiple) {
  parts_.clear();
  for (std::size_t w = 0; w < weights_.size(); ++w) {
    const std::int64_t rows = weights_[w].rows;
    std::int64_t step = std::max<std::int64_t>(1, kPartElements / weights_[w].cols);
    step = round_up(step, rows_multiple);
    for (std::int64_t row = 0; row < rows; row += step) {
      parts_.push_back({.weight = w, .row_begin = row, .row_end = std::min(row + step, rows)});
    }
  }
}

Status UnitEncoder::run_parts(const std::function<Status(std::size_t part, Scratch& scratch)>& fn) {
  // If several parts fail, the error of the first part is reported, whichever came first.
  std::vector<Status> results(parts_.size(), Status(Ok{}));
  std::atomic<bool> failed = false;
  pool_.run_dynamic(std::ssize(parts_), [&](std::int64_t part, int thread) {
    if (failed.load(std::memory_order_relaxed)) return;
    Status& result = results[static_cast<std::size_t>(part)];
    result = fn(static_cast<std::size_t>(part), scratch_[static_cast<std::size_t>(thread)]);
    if (!result.ok()) failed = true;
  });
  for (Status& result : results) GLINT_TRY_STATUS(std::move(result));
  return Ok{};
}

void UnitEncoder::read(const Part& part, std::vector<float>& values) const {
  const Weight& weight = weights_[part.weight];
  const std::int64_t count = (part.row_end - part.row_begin) * weight.cols;
  values.resize(static_cast<std::size_t>(count));
  float* out = values.data();
  if (weight.format == WeightFormat::kBF16) {
    const BF16* in = weight.data.row<BF16>(part.row_begin);
    for (std::int64_t i = 0; i < count; ++i) out[i] = to_float(in[i]);
  } else if (weight.format == WeightFormat::kF32) {
    std::memcpy(out, weight.data.row<float>(part.row_begin), values.size() * sizeof(float));
  } else {
    for (std::int64_t row = part.row_begin; row < part.row_end; ++row, out += weight.cols) {
      dequantize_row(weight, row, out);
    }
  }
}

Error UnitEncoder::refused_value(const Unit& unit, std::size_t index) const {
  const Part& part = parts_[index];
  std::vector<float> values;
  read(part, values);
  auto at = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  const bool is_finite = at == values.end();
  if (is_finite) {
    at = std::max_element(values.begin(), values.end(),
                          [](float a, float b) { return std::abs(a) < std::abs(b); });
  }
  const std::int64_t cols = weights_[part.weight].cols;
  const std::int64_t element = part.row_begin * cols + (at - values.begin());
  return invalid(str("tensor ", quoted(unit.weights[part.weight].name), " is ",
                     is_finite ? str(*at) : "NaN or infinite", " at [", element / cols, ", ",
                     element % cols, "] (index ", element, "); expected ",
                     is_finite ? "magnitudes below 1e19" : "finite numbers"));
}

Status UnitEncoder::find_ranges(const Unit& unit) {
  amax_.assign(parts_.size(), 0);
  return run_parts([&](std::size_t i, Scratch&) -> Status {
    const Part& part = parts_[i];
    const Weight& weight = weights_[part.weight];
    const std::int64_t count = (part.row_end - part.row_begin) * weight.cols;
    amax_[i] = weight.format == WeightFormat::kF32
                   ? largest_or_infinity(weight.data.row<float>(part.row_begin), count)
                   : largest_or_infinity(weight.data.row<BF16>(part.row_begin), count);
    if (std::isinf(amax_[i])) return refused_value(unit, i);
    return Ok{};
  });
}

Status UnitEncoder::encode_nvfp4(const Unit& unit, const Write& write) {
  const float amax = *std::max_element(amax_.begin(), amax_.end());
  const Nvfp4Target target = {
      .rule = recipe_.scale,
      .global_scale = nvfp4_global_scale(amax, recipe_.scale, recipe_.power_of_two)};
  const auto spec_of = [&](std::size_t weight) {
    return unit.first_spec + weight * specs_per_weight(UnitKind::kNvfp4);
  };
  GLINT_TRY_STATUS(run_parts([&](std::size_t i, Scratch& scratch) -> Status {
    const Part& part = parts_[i];
    read(part, scratch.values);
    const auto count = std::ssize(scratch.values);
    scratch.codes.resize(static_cast<std::size_t>(count / 2));
    scratch.group_scales.resize(static_cast<std::size_t>(count / kNvfp4Group));
    const double error =
        encode_nvfp4_groups(isa_, target, scratch.values.data(), count / kNvfp4Group,
                            scratch.codes.data(), scratch.group_scales.data());
    sums_[i] = {error, sum_of_squares(scratch.values), count};
    const std::int64_t begin = part.row_begin * weights_[part.weight].cols;
    const std::size_t spec = spec_of(part.weight);
    GLINT_TRY_STATUS(write(spec, begin / 2, std::as_bytes(std::span(scratch.codes))));
    return write(spec + 1, begin / kNvfp4Group, std::as_bytes(std::span(scratch.group_scales)));
  }));
  const bool modelopt = recipe_.layout == Nvfp4Layout::kModelOpt;
  const float scales[] = {modelopt ? target.global_scale : 1 / target.global_scale,
                          modelopt ? unit.input_scale : 1 / unit.input_scale};
  for (std::size_t w = 0; w < weights_.size(); ++w) {
    for (std::size_t s = 0; s < 2; ++s) {
      GLINT_TRY_STATUS(
          write(spec_of(w) + 2 + s, 0, std::as_bytes(std::span(scales).subspan(s, 1))));
    }
  }
  return Ok{};
}

Status UnitEncoder::encode_fp8(const Unit& unit, const Write& write) {
  return run_parts([&](std::size_t i, Scratch& scratch) -> Status {
    const Part& part = parts_[i];
    const std::int64_t rows = part.row_end - part.row_begin, cols = weights_[0].cols;
    read(part, scratch.values);
    if (std::isinf(largest_or_infinity(scratch.values.data(), rows * cols))) {
      return refused_value(unit, i);
    }
    scratch.codes.resize(scratch.values.size());
    scratch.scales.clear();
    ErrorSum& sum = sums_[i];
    for (std::int64_t row = 0; row < rows; row += kFp8Block) {
      for (std::int64_t col = 0; col < cols; col += kFp8Block) {
        const Fp8Block block = {.values = scratch.values.data() + row * cols + col,
                                .codes = scratch.codes.data() + row * cols + col,
                                .rows = std::min<std::int64_t>(kFp8Block, rows - row),
                                .cols = std::min<std::int64_t>(kFp8Block, cols - col),
                                .stride = cols};
        float scale = 1;
        sum.squared_error += encode_fp8_tile(isa_, recipe_.fp8_scales, block, &scale);
        scratch.scales.push_back(scale);
      }
    }
    sum.squared_weights = sum_of_squares(scratch.values);
    sum.weights = rows * cols;
    const std::int64_t scale_cols = fp8_blocks(cols);
    GLINT_TRY_STATUS(
        write(unit.first_spec, part.row_begin * cols, std::as_bytes(std::span(scratch.codes))));
    return write(unit.first_spec + 1, part.row_begin / kFp8Block * scale_cols * 4,
                 std::as_bytes(std::span(scratch.scales)));
  });
}

Status UnitEncoder::dequantize(const Unit& unit, const Write& write) {
  return run_parts([&](std::size_t i, Scratch& scratch) -> Status {
    const Part& part = parts_[i];
    read(part, scratch.values);
    if (std::isinf(largest_or_infinity(scratch.values.data(), std::ssize(scratch.values)))) {
      return refused_value(unit, i);
    }
    scratch.words.resize(scratch.values.size());
    ErrorSum& sum = sums_[i];
    for (std::size_t k = 0; k < scratch.values.size(); ++k) {
      scratch.words[k] = to_bf16(scratch.values[k]);
      const double difference = double{scratch.values[k]} - to_float(scratch.words[k]);
      sum.squared_error += difference * difference;
    }
    sum.squared_weights = sum_of_squares(scratch.values);
    sum.weights = std::ssize(scratch.values);
    return write(unit.first_spec, part.row_begin * weights_[0].cols * 2,
                 std::as_bytes(std::span(scratch.words)));
  });
}

}  // namespace glint
