#include "backends/cuda/backward/cuda_gradients.h"

#include "backends/cuda/backward/backward.h"

namespace glint::cuda {
namespace {

class CudaGradients final : public Gradients {
 public:
  explicit CudaGradients(CudaDevice& device) : device_(device), scratch_(device) {}

#define GLINT_OP(Type, name) \
  void name(const Type##Args& args) override { run(#name, args, launch_##name); }
  GLINT_FOR_EACH_BACKWARD(GLINT_OP)
#undef GLINT_OP

 private:
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

}  // namespace

std::unique_ptr<Gradients> make_cuda_gradients(CudaDevice& device) {
  return std::make_unique<CudaGradients>(device);
}

}  // namespace glint::cuda
