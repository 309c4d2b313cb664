#include "quant/quantize_in_memory.h"

#include <cstring>

#include "base/ceil_div.h"
#include "base/thread_pool.h"
#include "checkpoint/memory_source.h"
#include "model/inventory.h"
#include "quant/unit_encoder.h"

namespace glint {
namespace {

constexpr std::size_t kAlignment = 64;

struct Memory {
  std::vector<std::byte> bytes;
};

class OwningSource final : private Memory, public MemorySource {
 public:
  OwningSource(std::string name, std::vector<std::byte> bytes, std::vector<StoredTensor> tensors)
      : Memory{std::move(bytes)}, MemorySource(std::move(name), std::move(tensors)) {}
};

}  // namespace

Result<Checkpoint> quantize_in_memory(Checkpoint source, const ModelConfig& config,
                                      const Recipe& recipe, ThreadPool& pool) {
  const std::vector<ModelTensor> table = model_tensors(config, source.source());
  GLINT_TRY(const std::vector<bool> quantized, choose_quantized(recipe, config, table));
  GLINT_TRY(
      const OutputPlan plan,
      plan_output({.config = config, .recipe = recipe, .table = table, .quantized = quantized},
                  source));
  std::vector<std::size_t> offsets;
  std::size_t end = 0;
  for (const TensorSpec& spec : plan.specs) {
    offsets.push_back(end);
    end += round_up(static_cast<std::size_t>(spec.bytes()), kAlignment);
  }
  std::vector<std::byte> bytes(end);
  UnitEncoder encoder(recipe, source, pool, Sources::kKeep);
  ErrorSums errors;
  for (const Unit& unit : plan.units) {
    const auto write = [&](std::size_t spec, std::int64_t offset,
                           std::span<const std::byte> part) -> Status {
      std::memcpy(&bytes[offsets[spec] + static_cast<std::size_t>(offset)], part.data(),
                  part.size());
      return Ok{};
    };
    GLINT_TRY_STATUS(encoder.encode(unit, write, errors));
  }
  std::vector<StoredTensor> tensors;
  for (std::size_t i = 0; i < plan.specs.size(); ++i) {
    const TensorSpec& spec = plan.specs[i];
    tensors.push_back(
        {.name = spec.name,
         .type = spec.type,
         .shape = spec.shape,
         .bytes = std::span(bytes).subspan(offsets[i], static_cast<std::size_t>(spec.bytes()))});
  }
  return Checkpoint(std::make_unique<OwningSource>(source.source().name() + " as quantised",
                                                   std::move(bytes), std::move(tensors)));
}

}  // namespace glint
