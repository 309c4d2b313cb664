#include "autograd/tape_ops.h"

#include <algorithm>

#include "base/str.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

// Whether they share memory. Columns of the same rows lie between one another, and share none.
bool overlap(const Tensor& a, const Tensor& b) {
  if (a.data >= end_of(b) || b.data >= end_of(a)) return false;
  const auto pitch = [](const Tensor& x) {
    return x.stride[0] * static_cast<std::int64_t>(size_of(x.dtype));
  };
  const auto width = [](const Tensor& x) { return end_of(x[0]) - x.data; };
  if (pitch(a) != pitch(b)) return true;
  std::int64_t begin = (b.data - a.data) % pitch(a);  // of b's rows, from where a's begin
  if (begin < 0) begin += pitch(a);
  return begin < width(a) || begin + width(b) > pitch(a);
}

// The ids, counted from the first row of a part of the vocabulary; -1: of another part.
std::vector<std::int32_t> ids_within(const EmbedArgs& args, Device& device) {
  std::vector<std::int32_t> own = download<std::int32_t>(args.ids, device);
  for (std::int32_t& id : own) {
    const std::int32_t row = id - args.first;
    id = row >= 0 && row < args.table.dim(0) ? row : -1;
  }
  return own;
}

}  // namespace

TapeOps::TapeOps(std::unique_ptr<Ops> inner, std::unique_ptr<Gradients> gradients)
    : ComposingOps(std::move(inner)), gradients_(std::move(gradients)), scratch_(device()) {
  GLINT_CHECK(gradients_, "the backend has no gradients");
}

TapeOps::~TapeOps() = default;

void TapeOps::train(int id, int half, const Tensor& gradient) {
  GLINT_CHECK(id >= 0, "a weight of no model has no gradient of its own");
  const auto at = static_cast<std::size_t>(id);
  if (weights_.size() <= at) weights_.resize(at + 1);
  weights_[at][static_cast<std::size_t>(half)] = gradient;
}

Tensor TapeOps::gradient_of(int id, int half) const {
  const auto at = static_cast<std::size_t>(id);
  return id < 0 || at >= weights_.size() ? Tensor{} : weights_[at][static_cast<std::size_t>(half)];
}

bool TapeOps::reserve(const LatentCache& cache, std::int64_t scratch) {
  if (scratch > 0 && !scratch_.reserve(static_cast<std::size_t>(scratch))) return false;
  const std::int64_t slots = cache.num_slots, width = cache.latent_dim + cache.rope_dim;
  const Tensor& d = cache_gradient_;
  if (d && d.dim(0) == slots && d.dim(1) == width) return true;
  GLINT_CHECK(!records_cache_, "caches of one record have one size");
  cache_gradient_ = {};
  cache_memory_ = {};
  cache_memory_ = zeroed_memory(device(), static_cast<std::size_t>(slots * width) * sizeof(float));
  if (!cache_memory_.data()) return false;
  cache_gradient_ = Tensor(cache_memory_.data(), DType::kF32, {slots, width});
  return true;
}

Tensor TapeOps::gradient_of_cache(const LatentCache& cache) {
  GLINT_CHECK(reserve(cache), "no memory for the gradient of caches");
  records_cache_ = true;
  return cache_gradient_;
}

std::string TapeOps::find_remains(const Tensor& except) const {
  for (std::int64_t i = 0; cache_gradient_ && i < cache_gradient_.size(); ++i) {
    const float value = cache_gradient_.ptr<float>()[i];
    if (value != 0)
      return str("the gradient of cache row ", i / cache_gradient_.dim(1), " is still ", value);
  }
  return shadow_ ? shadow_->find_remains(except) : "";
}

void TapeOps::record(Arena& arena, Shadow& shadow, const std::function<void()>& run) {
  GLINT_CHECK(!recording(), "a recording within a recording");
  GLINT_CHECK(steps_.empty() || shadow_ == &shadow, "one record has one shadow");
  arena_ = &arena;
  shadow_ = &shadow;
  run();
  arena_ = nullptr;
}

void TapeOps::backward(std::size_t mark) {
  GLINT_CHECK(!recording(), "the backward pass begins within a recording");
  while (steps_.size() > mark) {
    const Step step = std::move(steps_.back());
    steps_.pop_back();
    const bool is_live =
        step.written.empty() || std::any_of(step.written.begin(), step.written.end(),
                                            [&](const Tensor& x) { return shadow_->is_live(x); });
    if (is_live) step.back();
  }
  if (steps_.empty()) forget();
  if (shadow_) shadow_->forget_live();
}

void TapeOps::forget() {
  steps_.clear();
  kept_.clear();
  records_cache_ = false;
}

void TapeOps::add_step(std::vector<Tensor> written, std::function<void()> back) {
  steps_.push_back({std::move(written), std::move(back)});
}

TapeOps::Kept TapeOps::keep(const Tensor& x) {
  const auto is_same = [&](const Kept& kept) {
    return kept->data == x.data && kept->dtype == x.dtype && kept->rank == x.rank &&
           kept->shape == x.shape && kept->stride == x.stride;
  };
  const auto found = std::find_if(kept_.begin(), kept_.end(), is_same);
  if (found != kept_.end()) return *found;
  return kept_.emplace_back(std::make_shared<Tensor>(x));
}

void TapeOps::about_to_update(const Tensor& x) {
  std::erase_if(kept_, [&](const Kept& kept) {
    if (!overlap(*kept, x)) return false;
    *kept = copy_of(*kept);
    return true;
  });
}

Tensor TapeOps::copy_of(const Tensor& x) {
  GLINT_CHECK(x.rank == 2, "only rows are kept");
  const std::int64_t T = x.dim(0), D = x.dim(1);
  const auto size = static_cast<std::int64_t>(size_of(x.dtype));
  const Tensor copy = arena_->take(x.dtype, {T, D});
  if (x.is_dense()) {
    device().copy(copy.data, x.data, static_cast<std::size_t>(T * D * size));
    return copy;
  }
  for (std::int64_t t = 0; t < T; ++t) {
    device().copy(copy.data + t * D * size, x.data + t * x.stride[0] * size,
                  static_cast<std::size_t>(D * size));
  }
  return copy;
}

void TapeOps::embed(const EmbedArgs& args) {
  if (!run(&Ops::embed, args, args.out)) return;
  EmbedArgs whole = args;
  if (args.is_part) {
    whole.ids = upload(ids_within(args, device()), {args.ids.size()}, *arena_);
    whole.is_part = false;
    whole.first = 0;
  }
  add_step({args.out}, [=, this] {
    gradients_->embed_back(
        {.op = whole, .dout = shadow_->of(args.out), .dtable = gradient_of(args.table)});
  });
}

void TapeOps::gather_rows(const GatherRowsArgs& args) {
  if (!run(&Ops::gather_rows, args, args.out)) return;
  add_step({args.out}, [=, this] {
    gradients_->gather_rows_back(
        {.op = args, .dout = shadow_->of(args.out), .dx = shadow_->add_to(args.x)});
  });
}

void TapeOps::add(const AddArgs& args) {
  if (!run(&Ops::add, args, args.x)) return;
  add_step({args.x}, [=, this] {
    gradients_->add_back({.op = args, .dx = shadow_->of(args.x), .dy = shadow_->add_to(args.y)});
  });
}

void TapeOps::silu_mul(const SiluMulArgs& args) {
  if (!recording()) return inner_->silu_mul(args);
  const Kept gate = keep(args.gate), up = keep(args.up);
  about_to_update(args.out);
  inner_->silu_mul(args);
  add_step({args.out}, [=, this] {
    gradients_->silu_mul_back({.op = {.gate = *gate, .up = *up, .out = args.out},
                               .dout = shadow_->of(args.out),
                               .dgate = shadow_->add_to(args.gate),
                               .dup = shadow_->add_to(args.up)});
  });
}

void TapeOps::rms_norm(const RmsNormArgs& args) {
  if (!recording()) return inner_->rms_norm(args);
  const bool in_place = args.out.data == args.x.data;
  if (args.delta) about_to_update(args.x);
  Kept x = in_place ? keep(args.x) : nullptr;
  about_to_update(args.out);
  inner_->rms_norm(args);
  if (!in_place) x = keep(args.x);  // with delta added
  std::vector<Tensor> written = {args.out};
  if (args.delta) written.push_back(args.x);
  add_step(std::move(written), [=, this] {
    RmsNormArgs op = args;
    op.x = *x;
    RmsNormBackArgs back = {.op = op,
                            .dout = shadow_->of(args.out),
                            .dx = shadow_->add_to(args.x),
                            .dweight = gradient_of(args.weight)};
    if (args.delta) back.ddelta = shadow_->add_to(args.delta);
    gradients_->rms_norm_back(back);
  });
}

void TapeOps::rope(const RopeArgs& args) {
  if (!run(&Ops::rope, args, args.x)) return;
  add_step({args.x}, [=, this] { gradients_->rope_back({.op = args, .dx = shadow_->of(args.x)}); });
}

void TapeOps::linear(const LinearArgs& args) {
  if (!run(&Ops::linear, args, args.out)) return;
  const Kept x = keep(args.x);
  add_step({args.out}, [=, this] {
    LinearArgs op = args;
    op.x = *x;
    gradients_->linear_back({.op = op,
                             .dout = shadow_->of(args.out),
                             .dx = shadow_->add_to(args.x),
                             .dweight = gradient_of(args.weight)});
  });
}

void TapeOps::grouped_linear(const GroupedLinearArgs& args) {
  if (!run(&Ops::grouped_linear, args, args.out)) return;
  const Kept x = keep(args.x);
  add_step({args.out}, [=, this] {
    GroupedLinearArgs op = args;
    op.x = *x;
    gradients_->grouped_linear_back({.op = op,
                                     .dout = shadow_->of(args.out),
                                     .dx = shadow_->add_to(args.x),
                                     .dweights = gradient_of(args.weights)});
  });
}

// Queries are rotated in place, in other columns than those that are multiplied: of [T, H, A] no
// copies are made.
void TapeOps::per_head(const PerHeadArgs& args) {
  if (!run(&Ops::per_head, args, args.out)) return;
  add_step({args.out}, [=, this] {
    gradients_->per_head_back({.op = args,
                               .dout = shadow_->of(args.out),
                               .dx = shadow_->add_to(args.x),
                               .dweights = gradient_of(args.weights)});
  });
}

void TapeOps::write_latent(const WriteLatentArgs& args) {
  inner_->write_latent(args);
  if (!recording()) return;
  const Tensor dcache = gradient_of_cache(args.cache);
  add_step({dcache}, [=, this] {
    gradients_->write_latent_back({.op = args,
                                   .dcache = dcache,
                                   .dlatent = shadow_->add_to(args.latent),
                                   .dk_rope = shadow_->add_to(args.k_rope)});
  });
}

void TapeOps::sparse_mla(const SparseMlaArgs& args) {
  if (!recording()) return inner_->sparse_mla(args);
  SparseMlaArgs op = args;
  if (!op.lse) op.lse = arena_->take(DType::kF32, {args.q_latent.dim(0), args.q_latent.dim(1)});
  inner_->sparse_mla(op);
  const Tensor dcache = gradient_of_cache(args.kv);
  add_step({args.out}, [=, this] {
    shadow_->set_live(dcache);
    gradients_->sparse_mla_back({.op = op,
                                 .dout = shadow_->of(args.out),
                                 .dq_latent = shadow_->add_to(args.q_latent),
                                 .dq_rope = shadow_->add_to(args.q_rope),
                                 .dcache = dcache});
  });
}

void TapeOps::route(const RouteArgs& args) {
  inner_->route(args);
  if (!recording()) return;
  add_step({args.weights}, [=, this] {
    gradients_->route_back({.op = args,
                            .dweights = shadow_->of(args.weights),
                            .dlogits = shadow_->add_to(args.logits)});
  });
}

void TapeOps::combine(const CombineArgs& args) {
  if (!run(&Ops::combine, args, args.out)) return;
  add_step({args.out}, [=, this] {
    CombineBackArgs back = {.op = args,
                            .dout = shadow_->of(args.out),
                            .dy = shadow_->add_to(args.y),
                            .dweights = shadow_->add_to(args.weights)};
    if (args.shared) back.dshared = shadow_->add_to(args.shared);
    gradients_->combine_back(back);
  });
}

void TapeOps::copy_keys(const AttentionInArgs& args) {
  const LatentCache& latents = args.latent_cache;
  const IndexCache& keys = args.index_cache;
  const auto copy = [&](std::byte* to, const std::byte* from, std::int64_t bytes) {
    device().copy(to, from, static_cast<std::size_t>(bytes));
  };
  for (const KeyCopy& one : copies_) {
    copy(latents.row(one.to), latents.row(one.from), one.count * latents.row_bytes());
    if (!keys || args.selection_given) continue;
    copy(keys.key(one.to), keys.key(one.from), one.count * keys.key_bytes());
    if (keys.format == IndexFormat::kFp8) {
      copy(keys.scale(one.to), keys.scale(one.from), one.count * std::int64_t{sizeof(float)});
    }
  }
  if (!recording()) return;
  const Tensor dcache = gradient_of_cache(latents);
  add_step({dcache}, [=, copies = copies_, this] {
    for (const KeyCopy& one : copies) {
      const Tensor from = dcache.slice(0, one.from, one.count);
      const Tensor to = dcache.slice(0, one.to, one.count);
      gradients_->add_back({.op = {.x = to, .y = from}, .dx = to, .dy = from});
      fill_zero(device(), to.data, to.bytes().size());
    }
  });
}

void TapeOps::attention_in(const AttentionInArgs& args, Arena& scratch) {
  ComposingOps::attention_in(args, scratch);
  if (!copies_.empty()) copy_keys(args);
}
void TapeOps::moe_experts(const MoeExpertsArgs& args, Arena& scratch) {
  if (!recording()) return inner_->moe_experts(args, scratch);
  // Rows behind the last expert's have no values, and no gradient may meet what lies there.
  const std::int64_t experts = args.offsets.dim(0) - 1;
  auto rows = static_cast<std::int32_t>(args.out.dim(0));  // where a plan has none to read
  device().copy_out(&rows, args.offsets.ptr<std::int32_t>() + experts, sizeof rows);
  MoeExpertsArgs used = args;
  used.out = args.out.slice(0, 0, rows);
  if (used.rows) used.rows = args.rows.slice(0, 0, rows);
  Ops::moe_experts(used, scratch);
}

}  // namespace glint
