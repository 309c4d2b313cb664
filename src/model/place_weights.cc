#include "model/place_weights.h"

#include <algorithm>
#include <span>

#include "base/file.h"
#include "base/memory.h"
#include "base/read_ahead.h"
#include "base/str.h"
#include "base/thread_pool.h"

namespace glint {
namespace {

// On `device`, the last that `weights` own.
Result<std::byte*> own(std::int64_t bytes, Device& device, ModelWeights& weights) {
  Buffer buffer = device.allocate(static_cast<std::size_t>(bytes));
  if (!buffer.data()) {
    return exhausted(str("no room on ", device.name(), " for ", human_bytes(bytes), " of weights"));
  }
  weights.owned.push_back(std::move(buffer));
  return weights.owned.back().data();
}

// All of `weights` becomes what `plan` will make it.
void place_all(ModelWeights& weights, WeightPlan& plan) {
  struct Each {
    WeightPlan& plan;
    void operator()(Tensor* tensor) const { plan.place(*tensor); }
    void operator()(Weight* weight) const { plan.place(*weight); }
    void operator()(WeightStack* weights) const { plan.place(*weights); }
    void operator()(KvHalves halves) const {
      plan.place(*halves.w_uk);
      plan.place(*halves.w_uv);
    }
  };
  visit(weights, [&](const ModelTensor&, Held held) { std::visit(Each{plan}, held); });
}

// The same tensors and weights in the same memory.
ModelWeights views_of(const ModelWeights& weights) {
  ModelWeights views = {.embed_tokens = weights.embed_tokens,
                        .layers = weights.layers,
                        .norm = weights.norm,
                        .lm_head = weights.lm_head,
                        .mtp = weights.mtp,
                        .tensors = weights.tensors,
                        .is_held = weights.is_held};
  for (const ModelWeights& slice : weights.slices) views.slices.push_back(views_of(slice));
  return views;
}

// Bytes of memory that placing them all takes.
std::int64_t bytes_to_place(const ModelWeights& weights, Backend& backend) {
  ModelWeights views = views_of(weights);
  WeightPlan plan(backend, nullptr);
  place_all(views, plan);
  return plan.bytes();
}

using Parts = std::vector<std::span<const std::byte>>;

// Weights that are packed together.
struct Batch {
  std::vector<PackedPair> pairs;
  std::int64_t bytes = 0;  // packed
  Parts parts;             // what they are packed from, in its order
  std::size_t parts_bytes = 0;
  Parts spent;  // of these, what nothing reads afterwards
};

// Where they lie in their files, not what they are for, decides the order: files are read from
// front to back. A head that is the embedding leaves it its tensor.
std::vector<Batch> batches_of(const WeightPlan& plan, const Tensor& embedding, Backend& backend) {
  // Sources and copies that exist at once; long enough for many threads.
  constexpr std::int64_t kBatchBytes = std::int64_t{256} << 20;
  std::vector<const PackedPair*> in_order;
  for (const PackedPair& pair : plan.pairs()) in_order.push_back(&pair);
  std::sort(in_order.begin(), in_order.end(), [](const PackedPair* a, const PackedPair* b) {
    return a->from.data.data < b->from.data.data;
  });
  std::vector<Batch> batches;
  for (const PackedPair* const pair : in_order) {
    if (batches.empty() || batches.back().bytes >= kBatchBytes) batches.emplace_back();
    Batch& batch = batches.back();
    batch.pairs.push_back(*pair);
    batch.bytes += backend.packed_bytes(pair->from);
    for (const Tensor* x : {&pair->from.data, &pair->from.scale}) {
      if (!*x) continue;
      batch.parts.push_back(x->bytes());
      if (pair->from.id < 0 || pair->from.id != embedding.id) batch.spent.push_back(x->bytes());
    }
  }
  for (Batch& batch : batches) {
    for (Parts* parts : {&batch.parts, &batch.spent}) {
      std::ranges::sort(*parts, {}, [](const auto& part) { return part.data(); });
    }
    for (const auto& part : batch.parts) batch.parts_bytes += part.size();
  }
  return batches;
}

// Neighbours are given back together: each time costs the kernel a round over all CPUs.
void discard(const Parts& parts) {
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

// Places all of `weights` in the memory from `to` on. Returns whether none is in a list.
bool place_at(std::byte* to, ModelWeights& weights, Sources sources, Backend& backend,
              ThreadPool& threads, const LoadProgress& progress) {
  constexpr std::size_t kReadAhead = std::size_t{512} << 20;  // what is being packed, and the next
  const Tensor embedding = weights.embed_tokens;
  WeightPlan plan(backend, to);
  place_all(weights, plan);
  std::vector<std::vector<Weight>> lists = plan.take_lists();
  const bool is_fixed = lists.empty();
  for (std::vector<Weight>& list : lists) weights.lists.push_back(std::move(list));
  const std::int64_t total = plan.packed_bytes();
  const std::vector<Batch> batches = batches_of(plan, embedding, backend);
  Parts parts;
  for (const Batch& batch : batches) {
    parts.insert(parts.end(), batch.parts.begin(), batch.parts.end());
  }
  for (const auto& [from, copy] : plan.copies()) {
    backend.device().copy_in(copy.data, from.data, from.bytes().size());
  }
  ReadAhead reader(parts, kReadAhead);
  for (const Batch& batch : batches) {
    backend.pack(batch.pairs, threads);
    reader.used(batch.parts_bytes);
    if (sources == Sources::kDiscard) discard(batch.spent);
    if (progress) progress(batch.bytes, total);
  }
  return is_fixed;
}

// Places in memory depend on this: a letter for each format, in order, and for each type of a
// tensor that has none.
std::string formats_in_order(ModelWeights& weights) {
  std::string formats;
  visit(weights, [&](const ModelTensor&, Held held) {
    if (Tensor* const* tensor = std::get_if<Tensor*>(&held)) {
      formats += static_cast<char>('A' + static_cast<int>((*tensor)->dtype));
    }
  });
  visit_matrices(weights, [&](const ModelTensor&, const Weight& weight) {
    formats += static_cast<char>('a' + static_cast<int>(weight.format));
  });
  return formats;
}

}  // namespace

Result<Placement> place_weights(ModelWeights& weights, const PackingPlan& plan, Backend& backend,
                                ThreadPool& threads, const LoadProgress& progress) {
  Placement placement = {.packed_bytes = bytes_to_place(weights, backend),
                         .available = available_memory(),
                         .formats = formats_in_order(weights)};
  placement.is_packed = placement.packed_bytes > 0;
  if (backend.device().is_host()) {
    const bool has_room = placement.packed_bytes + plan.keep_free <= placement.available;
    placement.is_packed &=
        plan.packing == Packing::kAlways || (plan.packing == Packing::kIfRoom && has_room);
  }
  if (!placement.is_packed) return placement;
  GLINT_TRY(std::byte* const to, own(placement.packed_bytes, backend.device(), weights));
  placement.is_fixed = place_at(to, weights, plan.sources, backend, threads, progress);
  return placement;
}

Status replace_weights(ModelWeights& weights, ModelWeights next, const Placement& placement,
                       Sources sources, Backend& backend, ThreadPool& threads) {
  // Packed weights no longer say what they were.
  if (formats_in_order(next) != placement.formats) {
    return invalid("its weights are not in the formats of the loaded ones; start again with it");
  }
  if (placement.is_packed) {
    next.owned.push_back(std::move(weights.owned.back()));
    place_at(next.owned.back().data(), next, sources, backend, threads, {});
  }
  weights = std::move(next);
  return Ok{};
}

}  // namespace glint
