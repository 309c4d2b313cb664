// Where a synthetic model goes: into memory, or into a directory.
#include <cstring>

#include "base/memory.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/memory_source.h"
#include "model/synthetic.h"
#include "tensor/device.h"

namespace glint {
namespace {

// Tensors one after another in one buffer, each at a whole line of the cache.
constexpr std::size_t aligned(std::int64_t bytes) {
  return (static_cast<std::size_t>(bytes) + 63) / 64 * 64;
}

std::size_t total_bytes(const std::vector<TensorSpec>& specs) {
  std::size_t total = 0;
  for (const TensorSpec& spec : specs) total += aligned(spec.bytes());
  return total;
}

std::vector<StoredTensor> laid_out(const std::vector<TensorSpec>& specs, const std::byte* at) {
  std::vector<StoredTensor> tensors;
  for (const TensorSpec& spec : specs) {
    tensors.push_back({.name = spec.name,
                       .type = spec.type,
                       .shape = spec.shape,
                       .bytes = {at, static_cast<std::size_t>(spec.bytes())}});
    at += aligned(spec.bytes());
  }
  return tensors;
}

class DummySource final : public MemorySource {
 public:
  DummySource(const std::vector<TensorSpec>& specs, Buffer memory)
      : MemorySource("the synthetic model", laid_out(specs, memory.data())),
        memory_(std::move(memory)) {}

  void write(std::size_t tensor, std::int64_t offset, std::span<const std::byte> bytes) {
    const std::byte* begin = tensors()[tensor].bytes.data();
    std::memcpy(memory_.data() + (begin - memory_.data()) + offset, bytes.data(), bytes.size());
  }

 private:
  Buffer memory_;
};

Json generation_config(const ModelConfig& config) {
  Json::Array ids;
  for (const TokenId id : config.eos_token_ids) ids.push_back(id);
  return Json::Object{
      {"_from_model_config", true}, {"eos_token_id", ids}, {"temperature", 1.0}, {"top_p", 0.95}};
}

}  // namespace

Result<Checkpoint> make_dummy_checkpoint(const SyntheticModel& model, ThreadPool& pool,
                                         const BytesDone& done) {
  const std::size_t bytes = total_bytes(model.tensors());
  // Asked first, because the kernel grants more memory than there is and kills who uses it.
  const std::int64_t available = available_memory();
  Buffer memory;
  if (static_cast<std::int64_t>(bytes) <= available) memory = make_host_device()->allocate(bytes);
  if (!memory.data()) {
    return exhausted(str("the synthetic weights need ", human_bytes(bytes), " of memory, but only ",
                         human_bytes(available), " are available"));
  }
  auto source = std::make_unique<DummySource>(model.tensors(), std::move(memory));
  const auto write = [&](std::size_t tensor, std::int64_t offset,
                         std::span<const std::byte> part) -> Status {
    source->write(tensor, offset, part);
    return Ok{};
  };
  GLINT_TRY_STATUS(model.generate(pool, write, done));
  return Checkpoint(std::move(source));
}

Status write_synthetic_checkpoint(const SyntheticModel& model, const Json& config_json,
                                  const std::string& dir, ThreadPool& pool, const BytesDone& done) {
  GLINT_TRY(CheckpointWriter writer, CheckpointWriter::create(dir, model.tensors()));
  const auto write = [&](std::size_t tensor, std::int64_t offset, std::span<const std::byte> part) {
    return writer.write(tensor, offset, part);
  };
  GLINT_TRY_STATUS(model.generate(pool, write, done));
  const auto add = [&](const char* name, const Json& json) {
    return writer.add_file(name, dump_json(json, JsonStyle::kIndent2) + "\n");
  };
  GLINT_TRY_STATUS(
      add("config.json", config_of_release(config_json, model.config(), model.release())));
  GLINT_TRY_STATUS(add("generation_config.json", generation_config(model.config())));
  if (const auto quant = hf_quant_config(model.config(), model.release())) {
    GLINT_TRY_STATUS(add("hf_quant_config.json", *quant));
  }
  return writer.finish();
}

}  // namespace glint
