// ReferenceOps: every primitive as plain scalar code on the host, one source per contract in ops/.
//
// The oracle that other backends are compared with, and the base that CpuOps overrides where it is
// hot. Sums, norms and exponentials are in f64 and rounded to f32 once, then to the output's type,
// so that its own error is far below any tolerance; what a contract calls an f32 value (a router's
// score) is one here too. It checks every index it reads, which fast backends do not.
//
// One thread; not thread-safe.
#pragma once

#include <memory>

#include "ops/ops.h"

namespace glint {

class ReferenceOps : public Ops {
 public:
  // `device` must be host memory.
  explicit ReferenceOps(std::unique_ptr<Device> device = make_host_device());

  Device& device() override { return *device_; }
  Capabilities capabilities() const override;

  void embed(const EmbedArgs& args) override;
  void gather_rows(const GatherRowsArgs& args) override;
  void add(const AddArgs& args) override;
  void silu_mul(const SiluMulArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void layer_norm(const LayerNormArgs& args) override;
  void rope(const RopeArgs& args) override;
  void linear(const LinearArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;
  void per_head(const PerHeadArgs& args) override;
  void write_latent(const WriteLatentArgs& args) override;
  void write_index(const WriteIndexArgs& args) override;
  void select_keys(const SelectKeysArgs& args) override;
  void sparse_mla(const SparseMlaArgs& args) override;
  void route(const RouteArgs& args) override;
  void permute(const PermuteArgs& args) override;
  void combine(const CombineArgs& args) override;

 private:
  std::unique_ptr<Device> device_;
};

}  // namespace glint
