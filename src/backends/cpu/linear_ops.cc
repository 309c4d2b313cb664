// linear, grouped_linear, per_head: products over panels.
#include "backends/cpu/cpu_ops.h"
#include "base/thread_pool.h"

namespace glint {

using cpu::Product;
using cpu::TypedRows;

std::int64_t CpuOps::packed_bytes(const Weight& weight) { return cpu::packed_bytes(weight); }
Weight CpuOps::packed(const Weight& weight, std::byte* to) { return cpu::packed(weight, to); }
void CpuOps::pack(std::span<const PackedPair> pairs, ThreadPool& threads) {
  cpu::pack(products_.kernels(), threads, pairs);
}

void CpuOps::linear(const LinearArgs& args) {
  check(args);
  TypedRows x(products_, args.x, x_);
  const Product one[] = {
      {.weight = args.weight, .x = x.of(args.weight), .out = args.out, .adds = args.accumulate}};
  products_.run(one);
}

void CpuOps::grouped_linear(const GroupedLinearArgs& args) {
  check(args);
  const std::int32_t* rows = args.rows ? args.rows.ptr<std::int32_t>() : nullptr;
  const std::int32_t* offsets = args.offsets.ptr<std::int32_t>();
  const std::int64_t E = args.weights.count;
  GLINT_CHECK(offsets[0] == 0 && offsets[E] <= args.out.dim(0), "offsets go beyond the rows");
  for (std::int64_t r = 0; rows && r < offsets[E]; ++r) {
    GLINT_CHECK(rows[r] >= 0 && rows[r] < args.x.dim(0), "a row beyond x");
  }
  TypedRows x(products_, args.x, x_);
  std::vector<Product> products;
  for (std::int64_t e = 0; e < E; ++e) {
    GLINT_CHECK(offsets[e] <= offsets[e + 1], "offsets do not ascend");
    if (offsets[e] == offsets[e + 1]) continue;
    const Weight weight = args.weights[e];
    cpu::for_pieces(offsets[e], offsets[e + 1], [&](std::int64_t first, std::int64_t count) {
      Product product = {
          .weight = weight, .out = args.out.slice(0, first, count), .adds = args.accumulate};
      if (rows) {
        product.source = {.x = args.x, .places = rows + first, .count = count};
      } else {
        product.x = x.of(weight, first, count);
      }
      products.push_back(product);
    });
  }
  products_.run(products);
}

void CpuOps::per_head(const PerHeadArgs& args) {
  check(args);
  const std::int64_t H = args.x.dim(1);
  if (static_cast<std::int64_t>(head_x_.size()) < H) head_x_.resize(static_cast<std::size_t>(H));
  std::vector<Product> products;
  for (std::int64_t h = 0; h < H; ++h) {
    const Weight weight = args.weights[h];
    TypedRows x(products_, args.x.head(h), head_x_[static_cast<std::size_t>(h)]);
    products.push_back(
        {.weight = weight, .x = x.of(weight), .out = args.out.head(h), .adds = args.accumulate});
  }
  products_.run(products);
}

}  // namespace glint
