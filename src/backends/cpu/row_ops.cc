// Ops on rows: moves, norms, rotation, activations, cache writes, routing, combination.
#include <cstring>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/for_rows.h"
#include "base/thread_pool.h"
#include "ops/capabilities.h"

namespace glint {

using cpu::Kernels;

namespace {

bool is_bf16(const Tensor& x) { return x.dtype == DType::kBF16; }
std::byte* row_of(const Tensor& x, std::int64_t i) {
  return x ? x.data + i * x.stride[0] * size_of(x.dtype) : nullptr;
}
// Row t with the fields that both norms need.
template <class Args>
cpu::NormRow norm_row(const Args& args, std::int64_t t) {
  return {.x = row_of(args.x, t),
          .delta = nullptr,
          .weight = args.weight.data,
          .bias = nullptr,
          .out = row_of(args.out, t),
          .size = args.x.dim(1),
          .eps = args.eps,
          .is_bf16 = is_bf16(args.x),
          .delta_is_bf16 = false,
          .weight_is_bf16 = is_bf16(args.weight),
          .out_is_bf16 = is_bf16(args.out)};
}

}  // namespace

CpuOps::CpuOps(CpuIsa isa, ThreadPool& pool)
    : isa_(isa),
      pool_(pool),
      products_(cpu::kernels_for(isa), pool),
      attention_(static_cast<std::size_t>(pool.num_threads())) {
  GLINT_CHECK(cpu_has(isa), std::string("this CPU has no ") + name_of(isa));
}

Capabilities CpuOps::capabilities() const { return all_capabilities("cpu"); }

void CpuOps::embed(const EmbedArgs& args) {
  check(args);
  const std::int64_t D = args.out.dim(1);
  cpu::for_rows(pool_, args.out.dim(0), D, [&](std::int64_t t, int) {
    const std::int32_t id = args.ids.ptr<std::int32_t>()[t];
    const std::int64_t at = std::int64_t{id} - args.first;
    const bool is_here = at >= 0 && at < args.table.dim(0);
    std::byte* out = row_of(args.out, t);
    GLINT_CHECK(id < 0 || is_here || args.is_part, "a token id beyond the vocabulary");
    if (!is_here) {
      std::memset(out, 0, static_cast<std::size_t>(D * size_of(args.out.dtype)));
      return;
    }
    products_.kernels().convert(row_of(args.table, at), is_bf16(args.table), out, is_bf16(args.out),
                                D);
  });
}

void CpuOps::gather_rows(const GatherRowsArgs& args) {
  check(args);
  const std::int64_t D = args.x.dim(1);
  cpu::for_rows(pool_, args.out.dim(0), D, [&](std::int64_t r, int) {
    const std::int32_t source = args.rows.ptr<std::int32_t>()[r];
    const auto bytes = static_cast<std::size_t>(D * size_of(args.x.dtype));
    if (source < 0) {
      std::memset(row_of(args.out, r), 0, bytes);
      return;
    }
    GLINT_CHECK(source < args.x.dim(0), "a row beyond x");
    std::memcpy(row_of(args.out, r), row_of(args.x, source), bytes);
  });
}

void CpuOps::silu_mul(const SiluMulArgs& args) {
  check(args);
  cpu::for_rows(pool_, args.gate.dim(0), args.gate.dim(1), [&](std::int64_t t, int) {
    products_.kernels().silu_mul({.gate = row_of(args.gate, t),
                                  .up = row_of(args.up, t),
                                  .out = row_of(args.out, t),
                                  .size = args.gate.dim(1),
                                  .is_bf16 = is_bf16(args.gate)});
  });
}

void CpuOps::rms_norm(const RmsNormArgs& args) {
  check(args);
  cpu::for_rows(pool_, args.x.dim(0), args.x.dim(1), [&](std::int64_t t, int) {
    cpu::NormRow row = norm_row(args, t);
    row.delta = row_of(args.delta, t);
    row.delta_is_bf16 = is_bf16(args.delta);
    products_.kernels().rms_norm(row);
  });
}

void CpuOps::layer_norm(const LayerNormArgs& args) {
  check(args);
  if (args.weight.dtype != args.bias.dtype) return ReferenceOps::layer_norm(args);
  cpu::for_rows(pool_, args.x.dim(0), args.x.dim(1), [&](std::int64_t t, int) {
    cpu::NormRow row = norm_row(args, t);
    row.bias = args.bias.data;
    products_.kernels().layer_norm(row);
  });
}

void CpuOps::rope(const RopeArgs& args) {
  check(args);
  const std::int64_t H = args.x.dim(1), R = args.x.dim(2);
  cpu::for_rows(pool_, args.x.dim(0), H * R, [&](std::int64_t t, int) {
    const std::int32_t position = args.positions.ptr<std::int32_t>()[t];
    if (position < 0) return;
    GLINT_CHECK(position < args.table.dim(0), "a position beyond the rotary table");
    const float* const cos = args.table.row<float>(position);
    for (std::int64_t h = 0; h < H; ++h) {
      products_.kernels().rope(
          {.x = row_of(args.x, t) + h * args.x.stride[1] * size_of(args.x.dtype),
           .cos = cos,
           .sin = cos + R / 2,
           .size = R,
           .is_bf16 = is_bf16(args.x),
           .interleaved = args.interleaved});
    }
  });
}

// The reference's own code, on the rows of each thread.
void CpuOps::write_latent(const WriteLatentArgs& args) {
  check(args);
  const std::int64_t T = args.latent.dim(0);
  cpu::for_rows(pool_, T, args.latent.dim(1) + args.k_rope.dim(1), [&](std::int64_t t, int) {
    WriteLatentArgs row = args;
    row.latent = args.latent.slice(0, t, 1);
    row.k_rope = args.k_rope.slice(0, t, 1);
    row.slots = args.slots.slice(0, t, 1);
    ReferenceOps::write_latent(row);
  });
}

void CpuOps::write_index(const WriteIndexArgs& args) {
  check(args);
  cpu::for_rows(pool_, args.k.dim(0), args.k.dim(1), [&](std::int64_t t, int) {
    WriteIndexArgs row = args;
    row.k = args.k.slice(0, t, 1);
    row.slots = args.slots.slice(0, t, 1);
    ReferenceOps::write_index(row);
  });
}

void CpuOps::route(const RouteArgs& args) {
  check(args);
  constexpr std::int64_t kSlow = 16;  // an exponential and a sort: dearer than an element of a norm
  cpu::for_rows(pool_, args.logits.dim(0), args.logits.dim(1) * kSlow, [&](std::int64_t t, int) {
    RouteArgs row = args;
    row.logits = args.logits.slice(0, t, 1);
    row.ids = args.ids.slice(0, t, 1);
    row.weights = args.weights.slice(0, t, 1);
    if (args.positions) row.positions = args.positions.slice(0, t, 1);
    ReferenceOps::route(row);
  });
}

void CpuOps::combine(const CombineArgs& args) {
  check(args);
  const std::int64_t k = args.places.dim(1), D = args.y.dim(1);
  constexpr std::int64_t kMost = 64;
  if (k > kMost) return ReferenceOps::combine(args);
  cpu::for_rows(pool_, args.out.dim(0), k * D, [&](std::int64_t t, int) {
    const void* rows[kMost];
    float weights[kMost];
    int count = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int32_t place = args.places.row<std::int32_t>(t)[j];
      if (place < 0) continue;
      GLINT_CHECK(place < args.y.dim(0), "a place beyond y");
      weights[count] = args.weights.row<float>(t)[j];
      rows[count++] = row_of(args.y, place);
    }
    products_.kernels().combine({.rows = rows,
                                 .weights = weights,
                                 .count = count,
                                 .shared = row_of(args.shared, t),
                                 .out = row_of(args.out, t),
                                 .size = D,
                                 .is_bf16 = is_bf16(args.y)});
  });
}

}  // namespace glint
