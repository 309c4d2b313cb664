#include "model/rope_on_device.h"

#include "base/str.h"
#include "base/thread_pool.h"
#include "model/rope.h"

namespace glint {

Result<RopeOnDevice> make_rope_table(const ModelConfig& config, std::int64_t positions,
                                     Device& device, ThreadPool* threads) {
  ThreadPool alone(1);
  const std::int64_t dim = config.qk_rope_head_dim;
  const std::vector<float> table =
      rope_table(config.rope, dim, positions, threads ? *threads : alone);
  const std::size_t bytes = table.size() * sizeof(float);
  RopeOnDevice rope = {.memory = device.allocate(bytes), .table = {}};
  if (!rope.memory.data()) {
    return exhausted(str("no room on ", device.name(), " for a rotary table of ",
                         human_bytes(bytes), "; a shorter context needs less"));
  }
  rope.table = Tensor(rope.memory.data(), DType::kF32, {positions, dim});
  device.copy_in(rope.table.data, table.data(), bytes);
  return rope;
}

}  // namespace glint
