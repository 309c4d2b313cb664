// Where a synthetic model goes: into memory, or into a directory.
#include <cstring>
#include <unordered_map>

#include "base/memory.h"
#include "base/str.h"
#include "model/synthetic.h"
#include "tensor/device.h"

namespace glint {
namespace {

// Tensors one after another in one buffer.
class MemorySource : public TensorSource {
 public:
  MemorySource(const std::vector<TensorSpec>& specs, Buffer memory) : memory_(std::move(memory)) {
    tensors_.reserve(specs.size());
    std::size_t at = 0;
    for (const TensorSpec& spec : specs) {
      const auto bytes = static_cast<std::size_t>(spec.bytes());
      tensors_.push_back({.name = spec.name,
                          .type = spec.type,
                          .shape = spec.shape,
                          .bytes = {memory_.data() + at, bytes}});
      at += aligned(bytes);
    }
    for (const StoredTensor& tensor : tensors_) by_name_.emplace(tensor.name, &tensor);
  }

  static std::size_t total_bytes(const std::vector<TensorSpec>& specs) {
    std::size_t total = 0;
    for (const TensorSpec& spec : specs) total += aligned(static_cast<std::size_t>(spec.bytes()));
    return total;
  }

  std::span<const StoredTensor> tensors() const override { return tensors_; }
  const StoredTensor* find(std::string_view name) const override {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : at->second;
  }
  const std::string& file_name(int) const override { return name_; }
  const std::string& name() const override { return name_; }

  void write(std::size_t tensor, std::int64_t offset, std::span<const std::byte> bytes) {
    const std::byte* begin = tensors_[tensor].bytes.data();
    std::memcpy(memory_.data() + (begin - memory_.data()) + offset, bytes.data(), bytes.size());
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  const std::string name_ = "the synthetic model";
  Buffer memory_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string_view, const StoredTensor*> by_name_;
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
  const std::size_t bytes = MemorySource::total_bytes(model.tensors());
  // Asked first, because the kernel grants more memory than there is and kills who uses it.
  const std::int64_t available = available_memory();
  Buffer memory;
  if (static_cast<std::int64_t>(bytes) <= available) memory = make_host_device()->allocate(bytes);
  if (!memory.data()) {
    return Error{ErrorCode::kResourceExhausted,
                 str("the synthetic weights need ", human_bytes(static_cast<double>(bytes)),
                     " of memory, but only ", human_bytes(static_cast<double>(available)),
                     " are available")};
  }
  auto source = std::make_unique<MemorySource>(model.tensors(), std::move(memory));
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
