#include "model/kv_b.h"

#include <algorithm>
#include <numeric>

#include "base/str.h"
#include "base/thread_pool.h"

namespace glint {
namespace {

class Splitter {
 public:
  explicit Splitter(const KvSplitArgs& args) : args_(args), c_(args.config) {}

  Status split(const Weight& kv_b, KvHalves w) {
    const KvFormats formats = kv_formats(kv_b.format, c_, args_.activations);
    if (formats.uk == WeightFormat::kFp8Block) return split_fp8(kv_b, formats.side, w);
    GLINT_TRY_STATUS(dequantise_w_uk(kv_b, formats.uk, w));
    if (formats.uv != kv_b.format) return dequantise_w_uv(kv_b, formats.uv, w);
    const std::int64_t heads = args_.heads.count, v = c_.v_head_dim;
    *w.w_uv = {.format = kv_b.format,
               .count = heads,
               .rows = v,
               .cols = c_.kv_lora_rank,
               .data = value_rows(kv_b.data),
               .scale = kv_b.scale ? value_rows(kv_b.scale) : Tensor(),
               .global_scale = kv_b.global_scale};
    if (Tensor& global = w.w_uv->global_scale) {  // the same for every head
      global.rank = 2;
      global.shape = {heads, 1};
      global.stride = {0, 1};
    }
    return Ok{};
  }

 private:
  // Both halves keep their codes. Where a head begins within a block, a block becomes several of
  // side `side`, with the same scale.
  Status split_fp8(const Weight& kv_b, int side, KvHalves w) {
    const std::int64_t heads = args_.heads.count, latent = c_.kv_lora_rank;
    const std::int64_t nope = c_.qk_nope_head_dim, v = c_.v_head_dim;
    const std::int64_t rows_uk = fp8_blocks(nope, side), rows_uv = fp8_blocks(v, side);
    const std::int64_t cols = kv_b.scale.dim(1);
    GLINT_TRY(std::byte * codes, memory(heads * latent * nope));
    GLINT_TRY(std::byte * scales_uk, memory(heads * rows_uk * cols * size_of(DType::kF32)));
    GLINT_TRY(std::byte * scales_uv, memory(heads * rows_uv * cols * size_of(DType::kF32)));
    *w.w_uk = {.format = WeightFormat::kFp8Block,
               .count = heads,
               .rows = latent,
               .cols = nope,
               .data = Tensor(codes, DType::kF8E4M3, {heads, latent, nope}),
               .scale = Tensor(scales_uk, DType::kF32, {heads, cols, rows_uk}),
               .block_cols = side};
    *w.w_uv = {.format = WeightFormat::kFp8Block,
               .count = heads,
               .rows = v,
               .cols = latent,
               .data = value_rows(kv_b.data),
               .scale = Tensor(scales_uv, DType::kF32, {heads, rows_uv, cols}),
               .block_rows = side};
    auto* uk = reinterpret_cast<float*>(scales_uk);
    auto* uv = reinterpret_cast<float*>(scales_uv);
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t first = first_row(h);
      const auto scale_of = [&](std::int64_t row) {
        return kv_b.scale.row<float>(row / kFp8Block);
      };
      for (std::int64_t i = 0; i < cols; ++i) {
        for (std::int64_t r = 0; r < rows_uk; ++r) *uk++ = scale_of(first + r * side)[i];
      }
      for (std::int64_t r = 0; r < rows_uv; ++r) {
        uv = std::copy_n(scale_of(first + nope + r * side), cols, uv);
      }
    }
    args_.pool.run(heads, [&](std::int64_t h, int) {
      write_transposed(
          reinterpret_cast<const std::uint8_t*>(kv_b.data.data) + first_row(h) * latent, latent,
          nope, reinterpret_cast<std::uint8_t*>(codes) + h * latent * nope,
          [](std::uint8_t code) { return code; });
    });
    return Ok{};
  }

  Status dequantise_w_uk(const Weight& kv_b, WeightFormat format, KvHalves w) {
    const std::int64_t heads = args_.heads.count, latent = c_.kv_lora_rank;
    const std::int64_t nope = c_.qk_nope_head_dim;
    GLINT_TRY(*w.w_uk, matrices(format, heads, latent, nope));
    args_.pool.run(heads, [&](std::int64_t h, int) {
      const std::vector<float> rows = dequantised(kv_b, first_row(h), nope);
      const Tensor out = w.w_uk->data[h];
      with_float_type(out.dtype, [&]<class T>(T) {
        write_transposed(rows.data(), latent, nope, out.ptr<T>(), from_float<T>);
      });
    });
    return Ok{};
  }

  Status dequantise_w_uv(const Weight& kv_b, WeightFormat format, KvHalves w) {
    const std::int64_t heads = args_.heads.count, v = c_.v_head_dim;
    GLINT_TRY(*w.w_uv, matrices(format, heads, v, c_.kv_lora_rank));
    args_.pool.run(heads, [&](std::int64_t h, int) {
      const std::vector<float> rows = dequantised(kv_b, first_row(h) + c_.qk_nope_head_dim, v);
      const Tensor out = w.w_uv->data[h];
      with_float_type(out.dtype, [&]<class T>(T) {
        std::transform(rows.begin(), rows.end(), out.ptr<T>(), from_float<T>);
      });
    });
    return Ok{};
  }

  // The rows of W_UV among `rows` of kv_b_proj: [heads, v, ..].
  Tensor value_rows(const Tensor& rows) const {
    const std::int64_t heads = args_.heads.count, nope = c_.qk_nope_head_dim;
    Tensor all = rows.slice(0, first_row(0), heads * (nope + c_.v_head_dim));
    all.rank = 3;
    all.shape = {heads, nope + c_.v_head_dim, rows.dim(1)};
    all.stride = {(nope + c_.v_head_dim) * rows.stride[0], rows.stride[0], 1};
    return all.slice(1, nope, c_.v_head_dim);
  }
  // The first row of head number h of ours in kv_b_proj.
  std::int64_t first_row(std::int64_t h) const {
    return (args_.heads.first + h) * (c_.qk_nope_head_dim + c_.v_head_dim);
  }
  static std::vector<float> dequantised(const Weight& weight, std::int64_t first,
                                        std::int64_t count) {
    std::vector<float> rows(static_cast<std::size_t>(count * weight.cols));
    for (std::int64_t r = 0; r < count; ++r) {
      dequantize_row(weight, first + r, &rows[static_cast<std::size_t>(r * weight.cols)]);
    }
    return rows;
  }

  // New memory, the caller's.
  Result<std::byte*> memory(std::int64_t bytes) {
    Buffer buffer = make_host_device()->allocate(static_cast<std::size_t>(bytes));
    if (!buffer.data()) {
      return exhausted(str("no room for ", human_bytes(bytes), " of kv_b_proj's halves"));
    }
    std::byte* const data = buffer.data();
    args_.owned.push_back(std::move(buffer));
    return data;
  }

  // `count` matrices [rows, cols] of numbers in new memory.
  Result<WeightStack> matrices(WeightFormat format, std::int64_t count, std::int64_t rows,
                               std::int64_t cols) {
    const DType dtype = format == WeightFormat::kBF16 ? DType::kBF16 : DType::kF32;
    GLINT_TRY(std::byte * data, memory(count * rows * cols * size_of(dtype)));
    return WeightStack{.format = format,
                       .count = count,
                       .rows = rows,
                       .cols = cols,
                       .data = Tensor(data, dtype, {count, rows, cols})};
  }

  // out[k][r] = cast(from[r][k]); a block of columns at a time, so that reads stay in the cache.
  template <class From, class To, class Cast>
  static void write_transposed(const From* values, std::int64_t cols, std::int64_t rows, To* out,
                               Cast cast) {
    constexpr std::int64_t kBlock = 16;
    for (std::int64_t k0 = 0; k0 < cols; k0 += kBlock) {
      const From* from = values + k0;
      const std::int64_t count = std::min(kBlock, cols - k0);
      for (std::int64_t r = 0; r < rows; ++r, from += cols) {
        for (std::int64_t k = 0; k < count; ++k) out[(k0 + k) * rows + r] = cast(from[k]);
      }
    }
  }

  const KvSplitArgs& args_;
  const ModelConfig& c_;
};

}  // namespace

KvFormats kv_formats(WeightFormat stored, const ModelConfig& config, DType activations) {
  const auto side = static_cast<int>(
      std::gcd(std::gcd(config.qk_nope_head_dim, config.v_head_dim), std::int64_t{kFp8Block}));
  const bool is_fp8 = stored == WeightFormat::kFp8Block;
  if (is_fp8 && side >= kLeastFp8Block) return {stored, stored, side};
  const bool in_bf16 = stored == WeightFormat::kBF16 ||
                       (stored != WeightFormat::kF32 && activations == DType::kBF16);
  const WeightFormat numbers = in_bf16 ? WeightFormat::kBF16 : WeightFormat::kF32;
  return {numbers, is_fp8 ? numbers : stored, side};
}

Status split_kv_b(const Weight& kv_b, const KvSplitArgs& args, KvHalves halves) {
  GLINT_TRY_STATUS(Splitter(args).split(kv_b, halves));
  halves.w_uk->id = halves.w_uv->id = kv_b.id;
  halves.w_uv->half = 1;
  return Ok{};
}

}  // namespace glint
