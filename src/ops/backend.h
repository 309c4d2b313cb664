// Backend: the ops of a device, and all else that a model asks of it: its capabilities, where its
// kernels read weights, plans of its memory, and backward passes. Decorators (ops/forwarding_ops.h)
// are Ops alone.
#pragma once

#include <memory>
#include <utility>

#include "comm/device_comm.h"
#include "ops/ops.h"

namespace glint {

struct Capabilities;
class Gradients;
class PlanOps;
class ThreadPool;

class Backend : public Ops {
 public:
  virtual Capabilities capabilities() const = 0;  // ops/capabilities.h

  // Whether its kernels hold a model of these sizes: kUnsupported, naming the size and what there
  // is room for. Asked before the first weight is read.
  virtual Status supports(const ModelDims&) const { return Ok{}; }

  // The backend's threads of the host, for work between ops; null: it has none.
  virtual ThreadPool* host_threads() { return nullptr; }

  // Placement: once at load, weights go from mapped files to where this backend's kernels read
  // them, in the order that suits these. Products take weights packed or not, and give the same
  // bits. The defaults leave weights in host memory where they are, and copy them to other devices
  // as they are.
  //
  // Bytes that `weight` needs when packed; 0: it is best where it is.
  virtual std::int64_t packed_bytes(const Weight& weight);
  // `weight` as it will be when pack() has written it to `to`, aligned to 64 bytes; refers to no
  // other memory. May not read the weight, nor `to`.
  virtual Weight packed(const Weight& weight, std::byte* to);
  // Writes `to`, which packed() described, for each pair, on `threads` of the host. `from` is in
  // host memory and may be gone when the call returns.
  virtual void pack(std::span<const PackedPair> pairs, ThreadPool& threads);

  // This rank's member of a group whose tensors lie on this device; `host` is its member of the
  // same group on the host, and outlives it. Null: `host` reads the device's memory itself.
  virtual std::unique_ptr<DeviceComm> make_comm(Comm& host);

  // The backward passes of these ops (ops/backward.h), on the same device and threads; the result
  // does not outlive them. Null: this backend has none.
  virtual std::unique_ptr<Gradients> make_gradients();

  // For planning (ops/plan_ops.h): the arguments checked, the memory taken, nothing computed. On
  // `device`, whose memory is not touched; the result outlives neither.
  virtual std::unique_ptr<PlanOps> make_plan_ops(Device& device);
  // Memory that the backend holds for itself, beside arenas.
  virtual std::int64_t scratch_bytes() const { return 0; }
};

// A backend whose ops pass through decorators first.
struct DecoratedBackend {
  template <class T>
  DecoratedBackend(std::unique_ptr<T> of) : backend(of.get()), ops(std::move(of)) {}

  // Puts a D in front, made of the ops so far and `args`; `ops` owns it.
  template <class D, class... Args>
  D& decorate(Args&&... args) {
    auto outer = std::make_unique<D>(std::move(ops), std::forward<Args>(args)...);
    D& front = *outer;
    ops = std::move(outer);
    return front;
  }

  Backend* backend;
  std::unique_ptr<Ops> ops;
};

}  // namespace glint
