#include "model/place_weights.h"

#include <algorithm>
#include <span>

#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::int64_t kAlign = 256;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
std::int64_t size_in_bytes(const Tensor& x) { return x.size() * size_of(x.dtype); }

// Memory handed out front to back.
class Stretch {
 public:
  // On `device`, owned by `weights`.
  static Result<Stretch> make(std::int64_t bytes, Device& device, ModelWeights& weights) {
    Buffer buffer = device.allocate(static_cast<std::size_t>(bytes));
    if (!buffer.data()) {
      return Error{ErrorCode::kResourceExhausted,
                   str("no room on ", device.name(), " for ",
                       human_bytes(static_cast<double>(bytes)), " of weights")};
    }
    weights.owned.push_back(std::move(buffer));
    return Stretch(weights.owned.back().data());
  }
  std::byte* take(std::int64_t bytes) {
    std::byte* const taken = next_;
    next_ += aligned(bytes);
    return taken;
  }

 private:
  explicit Stretch(std::byte* begin) : next_(begin) {}
  std::byte* next_;
};

// Gives back what `pairs` were packed from. Neighbours are given back together: each time costs
// the kernel a round over all CPUs.
void discard_sources(std::span<const PackedPair> pairs) {
  std::vector<std::span<const std::byte>> parts;
  for (const PackedPair& pair : pairs) {
    for (const Tensor* x : {&pair.from.data, &pair.from.scale}) {
      if (*x) parts.emplace_back(x->data, static_cast<std::size_t>(size_in_bytes(*x)));
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  std::span<const std::byte> joined;
  for (const auto& part : parts) {
    if (joined.data() + joined.size() == part.data()) {
      joined = {joined.data(), joined.size() + part.size()};
      continue;
    }
    discard_pages(joined);
    joined = part;
  }
  discard_pages(joined);
}

Status pack_all(ModelWeights& weights, std::int64_t bytes, Ops& ops,
                const std::function<void(std::int64_t)>& done) {
  // Sources and copies that exist at once; long enough for many threads.
  constexpr std::int64_t kBatchBytes = std::int64_t{256} << 20;
  GLINT_TRY(Stretch memory, Stretch::make(bytes, ops.device(), weights));
  std::vector<PackedPair> batch;
  std::int64_t batch_bytes = 0;
  const auto flush = [&] {
    ops.pack(batch);
    discard_sources(batch);
    done(batch_bytes);
    batch.clear();
    batch_bytes = 0;
  };
  visit(
      weights,
      [&](Weight& weight) {
        const std::int64_t needs = ops.packed_bytes(weight);
        if (needs == 0) return;
        batch.push_back({weight, ops.packed(weight, memory.take(needs))});
        weight = batch.back().to;
        batch_bytes += needs;
        if (batch_bytes >= kBatchBytes) flush();
      },
      [](Tensor&) {});
  flush();
  return Ok{};
}

Status copy_all(ModelWeights& weights, std::int64_t bytes, Device& device,
                const std::function<void(std::int64_t)>& done) {
  GLINT_TRY(Stretch memory, Stretch::make(bytes, device, weights));
  const VisitTensor copy = [&](Tensor& tensor) {
    std::byte* const to = memory.take(size_in_bytes(tensor));
    device.copy_in(to, tensor.data, static_cast<std::size_t>(size_in_bytes(tensor)));
    tensor.data = to;
    done(size_in_bytes(tensor));
  };
  visit(
      weights,
      [&](Weight& weight) {
        copy(weight.data);
        if (weight.scale) copy(weight.scale);
      },
      copy);
  return Ok{};
}

}  // namespace

Result<Placement> place_weights(ModelWeights& weights, Packing packing, Ops& ops,
                                const LoadProgress& progress) {
  Placement placement;
  std::int64_t packed = 0, copied = 0;
  visit(
      weights,
      [&](Weight& weight) {
        placement.packed_bytes += ops.packed_bytes(weight);
        packed += aligned(ops.packed_bytes(weight));
        copied += aligned(size_in_bytes(weight.data)) + aligned(size_in_bytes(weight.scale));
      },
      [&](Tensor& tensor) { copied += aligned(size_in_bytes(tensor)); });
  if (!ops.device().is_host()) {
    GLINT_TRY_STATUS(copy_all(weights, copied, ops.device(), [&](std::int64_t bytes) {
      if (progress) progress(bytes, copied);
    }));
    return placement;
  }
  placement.available = available_memory();
  // A tenth stays free for the cache and a step's temporaries.
  const bool has_room = packed <= placement.available / 10 * 9;
  placement.is_packed =
      packed > 0 && (packing == Packing::kAlways || (packing == Packing::kIfRoom && has_room));
  if (placement.is_packed) {
    GLINT_TRY_STATUS(pack_all(weights, packed, ops, [&](std::int64_t bytes) {
      if (progress) progress(bytes, placement.packed_bytes);
    }));
  }
  return placement;
}

}  // namespace glint
