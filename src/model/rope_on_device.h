// The rotary table where passes read it.
#pragma once

#include "base/result.h"
#include "model/config.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace glint {

class ThreadPool;

struct RopeOnDevice {
  Buffer memory;
  Tensor table;  // [positions, qk_rope_head_dim] f32
};

// rope_table() of `config`, made by `threads` (null: by the caller's). Fails if there is no room.
Result<RopeOnDevice> make_rope_table(const ModelConfig& config, std::int64_t positions,
                                     Device& device, ThreadPool* threads);

}  // namespace glint
