#include "model/place_weights.h"

#include <algorithm>
#include <span>

#include "base/file.h"
#include "base/memory.h"
#include "base/read_ahead.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::int64_t kAlign = 256;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }
std::int64_t size_in_bytes(const Tensor& x) { return x.size() * size_of(x.dtype); }

// Memory handed out front to back.
class Stretch {
 public:
  explicit Stretch(std::byte* begin) : next_(begin) {}
  std::byte* take(std::int64_t bytes) {
    std::byte* const taken = next_;
    next_ += aligned(bytes);
    return taken;
  }

 private:
  std::byte* next_;
};

// On `device`, the last that `weights` own.
Result<std::byte*> own(std::int64_t bytes, Device& device, ModelWeights& weights) {
  Buffer buffer = device.allocate(static_cast<std::size_t>(bytes));
  if (!buffer.data()) {
    return Error{ErrorCode::kResourceExhausted,
                 str("no room on ", device.name(), " for ", human_bytes(static_cast<double>(bytes)),
                     " of weights")};
  }
  weights.owned.push_back(std::move(buffer));
  return weights.owned.back().data();
}

// Weights that are packed together.
struct Batch {
  std::vector<PackedPair> pairs;
  std::int64_t bytes = 0;                         // packed
  std::vector<std::span<const std::byte>> parts;  // what they are packed from, in its order
  std::size_t parts_bytes = 0;
};

// Where they lie in their files, not what they are for, decides the order: files are read from
// front to back.
std::vector<Batch> plan_batches(ModelWeights& weights, std::byte* to, Ops& ops) {
  // Sources and copies that exist at once; long enough for many threads.
  constexpr std::int64_t kBatchBytes = std::int64_t{256} << 20;
  std::vector<Weight*> in_order;
  visit(
      weights,
      [&](Weight& weight) {
        if (ops.packed_bytes(weight) > 0) in_order.push_back(&weight);
      },
      [](Tensor&) {});
  std::sort(in_order.begin(), in_order.end(),
            [](const Weight* a, const Weight* b) { return a->data.data < b->data.data; });
  Stretch memory(to);
  std::vector<Batch> batches;
  for (Weight* const weight : in_order) {
    if (batches.empty() || batches.back().bytes >= kBatchBytes) batches.emplace_back();
    Batch& batch = batches.back();
    const std::int64_t needs = ops.packed_bytes(*weight);
    batch.pairs.push_back({*weight, ops.packed(*weight, memory.take(needs))});
    batch.bytes += needs;
    for (const Tensor* x : {&weight->data, &weight->scale}) {
      if (*x) batch.parts.emplace_back(x->data, static_cast<std::size_t>(size_in_bytes(*x)));
    }
    *weight = batch.pairs.back().to;
  }
  for (Batch& batch : batches) {
    std::sort(batch.parts.begin(), batch.parts.end(),
              [](const auto& a, const auto& b) { return a.data() < b.data(); });
    for (const auto& part : batch.parts) batch.parts_bytes += part.size();
  }
  return batches;
}

// Gives back what was packed, but not the embedding, which a head may be. Neighbours are given back
// together: each time costs the kernel a round over all CPUs.
void discard_sources(const Batch& batch, const Tensor& embedding) {
  std::span<const std::byte> joined;
  for (const auto& part : batch.parts) {
    if (part.data() == embedding.data) continue;
    if (joined.data() + joined.size() == part.data()) {
      joined = {joined.data(), joined.size() + part.size()};
      continue;
    }
    discard_pages(joined);
    joined = part;
  }
  discard_pages(joined);
}

using BytesDone = std::function<void(std::int64_t)>;

void pack_all(ModelWeights& weights, std::byte* to, Ops& ops, const BytesDone& done) {
  constexpr std::size_t kReadAhead = std::size_t{512} << 20;  // what is being packed, and the next
  const std::vector<Batch> batches = plan_batches(weights, to, ops);
  std::vector<std::span<const std::byte>> parts;
  for (const Batch& batch : batches) {
    parts.insert(parts.end(), batch.parts.begin(), batch.parts.end());
  }
  ReadAhead reader(parts, kReadAhead);
  for (const Batch& batch : batches) {
    ops.pack(batch.pairs);
    reader.used(batch.parts_bytes);
    discard_sources(batch, weights.embed_tokens);
    done(batch.bytes);
  }
}

void copy_all(ModelWeights& weights, std::byte* to, Device& device, const BytesDone& done) {
  Stretch memory(to);
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
}

// What a place in memory depends on.
std::vector<std::string> formats_in_order(ModelWeights& weights) {
  std::vector<std::string> formats;
  visit(
      weights,
      [&](Weight& weight) {
        formats.push_back(str(name_of(weight.format), " ", weight.data.describe()));
      },
      [&](Tensor& tensor) { formats.push_back(tensor.describe()); });
  return formats;
}

}  // namespace

Result<Placement> place_weights(ModelWeights& weights, Packing packing, Ops& ops,
                                const LoadProgress& progress) {
  Placement placement = {.formats = formats_in_order(weights)};
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
    GLINT_TRY(std::byte* const to, own(copied, ops.device(), weights));
    copy_all(weights, to, ops.device(), [&](std::int64_t bytes) {
      if (progress) progress(bytes, copied);
    });
    return placement;
  }
  placement.available = available_memory();
  // A tenth stays free for the cache and a step's temporaries.
  const bool has_room = packed <= placement.available / 10 * 9;
  placement.is_packed =
      packed > 0 && (packing == Packing::kAlways || (packing == Packing::kIfRoom && has_room));
  if (placement.is_packed) {
    GLINT_TRY(std::byte* const to, own(packed, ops.device(), weights));
    pack_all(weights, to, ops, [&](std::int64_t bytes) {
      if (progress) progress(bytes, placement.packed_bytes);
    });
  }
  return placement;
}

Status replace_weights(ModelWeights& weights, ModelWeights next, const Placement& placement,
                       Ops& ops) {
  // Packed weights no longer say what they were.
  if (formats_in_order(next) != placement.formats) {
    return invalid("its weights are not in the formats of the loaded ones; start again with it");
  }
  const bool on_host = ops.device().is_host();
  if (!on_host || placement.is_packed) {
    next.owned.push_back(std::move(weights.owned.back()));
    std::byte* const to = next.owned.back().data();
    if (on_host) {
      pack_all(next, to, ops, [](std::int64_t) {});
    } else {
      copy_all(next, to, ops.device(), [](std::int64_t) {});
    }
  }
  weights = std::move(next);
  return Ok{};
}

}  // namespace glint
