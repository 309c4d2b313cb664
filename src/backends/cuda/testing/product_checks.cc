#include <vector>

#include "backends/cuda/testing/device_checks.h"
#include "backends/cuda/testing/device_values.h"

namespace glint::cuda {
namespace {

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

}  // namespace

std::vector<DeviceCheck> product_checks() {
  return {{"a_row_of_linear_does_not_depend_on_its_batch",
           a_row_of_linear_does_not_depend_on_its_batch},
          {"grouped_linear_equals_linear_to_the_bit", grouped_linear_equals_linear_to_the_bit},
          {"linear_does_not_depend_on_alignment", linear_does_not_depend_on_alignment},
          {"rms_norm_does_not_depend_on_alignment", rms_norm_does_not_depend_on_alignment}};
}

}  // namespace glint::cuda
