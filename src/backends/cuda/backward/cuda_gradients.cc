#include "backends/cuda/backward/cuda_gradients.h"

#include "backends/cuda/backward/temporaries.h"
#include "ops/ops.h"
#include "ops/plan_gradients.h"

namespace glint::cuda {
namespace {

class CudaGradients final : public Gradients {
 public:
  explicit CudaGradients(CudaDevice& device) : device_(device), scratch_(device) {}

#define GLINT_OP(Type, name) \
  void name(const Type##Args& args) override { run(#name, args, launch_##name); }
  GLINT_FOR_EACH_BACKWARD(GLINT_OP)
#undef GLINT_OP

  std::int64_t scratch_bytes() const override {
    return static_cast<std::int64_t>(scratch_.high_water());
  }
  std::unique_ptr<PlanGradients> make_plan(Ops& ops) override;

 private:
  class Plan;

  template <class Args>
  void run(const char* op, const Args& args, void (*launch)(const Args&, const Gpu&)) {
    check(args);
    device_.run(op, [&](const Gpu& gpu) { launch(args, gpu); });
  }
  template <class Args>
  void run(const char* op, const Args& args, void (*launch)(const Args&, Arena&, const Gpu&)) {
    check(args);
    device_.run(op, [&](const Gpu& gpu) { launch(args, scratch_, gpu); });
  }

  CudaDevice& device_;
  Arena scratch_;
};

// The memory of the passes that take any. Every weight counts as trained.
class CudaGradients::Plan final : public PlanGradients {
 public:
  Plan(CudaGradients& of, Device& device) : of_(of), scratch_(device) {}

  std::int64_t scratch_bytes() const override {
    return static_cast<std::int64_t>(scratch_.high_water());
  }
  bool reserve() override { return of_.scratch_.reserve(scratch_.high_water()); }

  void embed_back(const EmbedBackArgs& args) override {
    check(args);
    add_at(args.dout.dim(0), args.op.table.dim(0));
  }
  void gather_rows_back(const GatherRowsBackArgs& args) override {
    check(args);
    add_at(args.dout.dim(0), args.dx.dim(0));
  }
  void rms_norm_back(const RmsNormBackArgs& args) override {
    check(args);
    const Arena::Scope scope(scratch_);
    RmsNormBackArgs trained = args;
    trained.dweight = args.op.weight;
    const RmsNormBackTemporaries memory(trained, scratch_);
  }
  void grouped_linear_back(const GroupedLinearBackArgs& args) override {
    check(args);
    const Arena::Scope scope(scratch_);
    const GroupedLinearBackTemporaries memory(args, scratch_);
    if (memory.dx) add_at(memory.dx.dim(0), args.dx.dim(0));
  }
  void sparse_mla_back(const SparseMlaBackArgs& args) override {
    check(args);
    if (args.dout.size() == 0 || args.op.indices.dim(1) == 0) return;
    const Arena::Scope scope(scratch_);
    const Arch& arch = of_.device_.gpu().arch;
    const std::int64_t tokens = SparseMlaBackTemporaries::most_tokens(args, arch);
    const SparseMlaBackTemporaries memory(args, tokens, arch, scratch_);
    add_at(memory.dkeys.dim(0), args.dcache.dim(0));
  }

 private:
  void add_at(std::int64_t rows, std::int64_t places) {
    const Arena::Scope scope(scratch_);
    const AddAtTemporaries memory(rows, places, scratch_);
  }

  CudaGradients& of_;
  Arena scratch_;
};

std::unique_ptr<PlanGradients> CudaGradients::make_plan(Ops& ops) {
  return std::make_unique<Plan>(*this, ops.device());
}

}  // namespace

std::unique_ptr<Gradients> make_cuda_gradients(CudaDevice& device) {
  return std::make_unique<CudaGradients>(device);
}

}  // namespace glint::cuda
