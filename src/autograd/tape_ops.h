// TapeOps: runs on another backend, writes down what ran, and goes back through it.
//
// While it records, blocks run as their compositions over primitives, so that whatever model/ and
// ops/blocks compute is what is differentiated: there is no second source of the model. Else they
// run fused, where a GPU rounds some sums otherwise (kBlockTolerance of ops/blocks/blocks.h). The
// indexer's ops have no gradient (ops/backward.h).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/shadow.h"
#include "ops/backend.h"
#include "ops/backward.h"
#include "ops/forwarding_ops.h"

namespace glint {

class Comm;
struct ExchangeArgs;

// Keys of one sequence that another has as well, in a page of its own: cache slots from, from + 1,
// ..., within a page, are copied to slots to, to + 1, ..., also within one.
struct KeyCopy {
  int from = 0, to = 0, count = 0;
};

class TapeOps final : public ComposingOps {
 public:
  // In front of a backend that has gradients (Capabilities).
  static TapeOps& decorate(DecoratedBackend& on) {
    return on.decorate<TapeOps>(on.backend->make_gradients());
  }
  TapeOps(std::unique_ptr<Ops> inner, std::unique_ptr<Gradients> gradients);
  ~TapeOps() override;

  // The gradient of a weight, which is known by its id, or of a stack's matrices or of a norm or
  // the embedding: f32, dense, of its shape, outside the arena, added to. A weight without one is
  // frozen.
  void train(const Tensor& weight, const Tensor& gradient) { train(weight.id, 0, gradient); }
  template <class WeightOrStack>
  void train(const WeightOrStack& weight, const Tensor& gradient) {
    train(weight.id, weight.half, gradient);
  }

  // Records what `run` does from here on, with temporaries and copies of what is overwritten in
  // `arena`, which is retained (Arena::Retain) until the backward pass is done. Calls before that
  // add to one record.
  void record(Arena& arena, Shadow& shadow, const std::function<void()>& run);
  // How much is recorded.
  std::size_t mark() const { return steps_.size(); }
  // Goes back through what was recorded since `mark`, from gradients that are live in the shadow,
  // and forgets it. Nothing else is recorded until all of it is gone.
  void backward(std::size_t mark = 0);
  // Forgets what is recorded.
  void forget();

  // Makes room for the gradient of caches like this one, between records, and `scratch` bytes for
  // rows between ranks on their way back. False: the device has no such memory.
  bool reserve(const LatentCache& cache, std::int64_t scratch = 0);
  // The most of the latter so far.
  std::int64_t scratch_bytes() const { return static_cast<std::int64_t>(scratch_.high_water()); }

  // From here on these keys are copied in the caches of each layer, once it has written its own.
  // The gradient of a copy goes to the original.
  void set_key_copies(std::vector<KeyCopy> copies) { copies_ = std::move(copies); }

  // Why the shadow and the gradient of the caches are not zero everywhere but in the gradient of
  // `except` (which may be empty), or nothing if they are. Reads all of it, in host memory: for
  // tests.
  std::string find_remains(const Tensor& except) const;

  // Collectives between ops (autograd/tape_comm.h).
  void all_reduce(Comm& comm, const Tensor& partial, const Tensor& out);
  void all_gather(Comm& comm, const Tensor& mine, const Tensor& all);
  void exchange(Comm& comm, const ExchangeArgs& args);

  Gradients& gradients() { return *gradients_; }
  // Where the gradient of a weight is, or empty.
  Tensor gradient_of(const Tensor& weight) const { return gradient_of(weight.id, 0); }
  template <class WeightOrStack>
  Tensor gradient_of(const WeightOrStack& weight) const {
    return gradient_of(weight.id, weight.half);
  }

  void embed(const EmbedArgs& args) override;
  void gather_rows(const GatherRowsArgs& args) override;
  void add(const AddArgs& args) override;
  void silu_mul(const SiluMulArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void rope(const RopeArgs& args) override;
  void linear(const LinearArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;
  void per_head(const PerHeadArgs& args) override;
  void write_latent(const WriteLatentArgs& args) override;
  void sparse_mla(const SparseMlaArgs& args) override;
  void route(const RouteArgs& args) override;
  void combine(const CombineArgs& args) override;

  void attention_in(const AttentionInArgs& args, Arena& scratch) override;
  void moe_experts(const MoeExpertsArgs& args, Arena& scratch) override;

 private:
  // A backward pass that runs if something flows into what the op wrote; without `written`, always.
  struct Step {
    std::vector<Tensor> written;
    std::function<void()> back;
  };
  // A value that a step will read: where it was, or a copy, once something is about to be written
  // there.
  using Kept = std::shared_ptr<Tensor>;

  bool recording() const { return arena_ != nullptr; }
  bool composes() const override { return recording(); }
  void add_step(std::vector<Tensor> written, std::function<void()> back);
  Kept keep(const Tensor& x);
  void about_to_update(const Tensor& x);
  // Runs an op that writes to `out`. True: it is to be recorded.
  template <class Args>
  bool run(void (Ops::*op)(const Args&), const Args& args, const Tensor& out) {
    if (recording()) about_to_update(out);
    ((*inner_).*op)(args);
    return recording();
  }
  Tensor copy_of(const Tensor& x);
  void train(int id, int half, const Tensor& gradient);
  Tensor gradient_of(int id, int half) const;
  // The gradient of the caches of all layers. Aborts where there is no memory for it.
  Tensor gradient_of_cache(const LatentCache& cache);

  void copy_keys(const AttentionInArgs& args);

  std::unique_ptr<Gradients> gradients_;
  std::vector<KeyCopy> copies_;
  Arena* arena_ = nullptr;  // while it records
  Shadow* shadow_ = nullptr;
  std::vector<Step> steps_;
  std::vector<Kept> kept_;                      // that are no copies yet
  std::vector<std::array<Tensor, 2>> weights_;  // gradients by id and half
  // Shared by the caches of all layers: a layer's backward pass leaves zeros.
  Buffer cache_memory_;
  Tensor cache_gradient_;
  bool records_cache_ = false;  // a step of this record refers to it
  Arena scratch_;
};

}  // namespace glint
