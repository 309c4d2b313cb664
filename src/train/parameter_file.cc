#include "train/parameter_file.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "base/str.h"
#include "checkpoint/safetensors.h"

namespace glint {
namespace {

// f(at, place): number `at` in the order of the checkpoint is number `place` in that of the
// gradient. Head after head: the transpose of w_uk [latent, nope], then w_uv [v, latent].
template <class F>
void for_each_of_kv_b(const Parameter& p, F f) {
  const std::int64_t heads = p.gradient.dim(0), latent = p.gradient.dim(1);
  const std::int64_t nope = p.gradient.dim(2), v = p.gradient_of_values.dim(1);
  std::size_t at = 0;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t a = 0; a < nope; ++a) {
      for (std::int64_t l = 0; l < latent; ++l) {
        f(at++, static_cast<std::size_t>((h * latent + l) * nope + a));
      }
    }
    for (std::int64_t i = 0; i < v * latent; ++i) {
      f(at++, static_cast<std::size_t>(heads * latent * nope + h * v * latent + i));
    }
  }
}

}  // namespace

std::vector<TensorSpec> specs_of(std::span<const ModelTensor> tensors) {
  std::vector<TensorSpec> specs;
  for (const ModelTensor& tensor : tensors) {
    for (int copy = 0; copy < tensor.num_copies(); ++copy) {
      TensorSpec spec = {
          .name = tensor.name_of_copy(copy), .type = StoredType::kF32, .shape = {tensor.cols}};
      if (tensor.is_matrix()) {
        spec.name += ".weight";
        spec.shape = {tensor.rows, tensor.cols};
      }
      specs.push_back(std::move(spec));
    }
  }
  return specs;
}

std::int64_t bytes_of(std::span<const TensorSpec> specs) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : specs) bytes += spec.bytes();
  return bytes;
}

void to_checkpoint_order(const Parameter& p, std::span<const float> values,
                         std::span<float> stored) {
  if (p.is_kv_b()) {
    for_each_of_kv_b(p, [&](std::size_t at, std::size_t place) { stored[at] = values[place]; });
  } else {
    std::copy(values.begin(), values.end(), stored.begin());
  }
}

void from_checkpoint_order(const Parameter& p, std::span<const float> stored,
                           std::span<float> values) {
  if (p.is_kv_b()) {
    for_each_of_kv_b(p, [&](std::size_t at, std::size_t place) { values[place] = stored[at]; });
  } else {
    std::copy(stored.begin(), stored.end(), values.begin());
  }
}

Status write_parameter_file(std::span<const ModelTensor> tensors,
                            const std::function<std::span<const float>(std::size_t)>& numbers_of,
                            const std::string& path) {
  const std::vector<TensorSpec> specs = specs_of(tensors);
  GLINT_TRY(ShardFile file, ShardFile::create(path, shard_head(specs), bytes_of(specs)));
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::span<const float> values = numbers_of(i);
    GLINT_TRY_STATUS(file.write(offset, std::as_bytes(values)));
    offset += static_cast<std::int64_t>(values.size_bytes());
  }
  return file.finish();
}

Status read_parameter_file(std::span<const ModelTensor> tensors, const std::string& path,
                           const std::function<Status(std::size_t, std::span<const float>)>& take) {
  GLINT_TRY(const MappedFile file, MappedFile::open(path));
  GLINT_TRY(const std::vector<StoredTensor> stored, parse_safetensors(file.bytes()).in(path));
  const std::vector<TensorSpec> specs = specs_of(tensors);
  const auto find = [&](const TensorSpec& spec) -> Result<const StoredTensor*> {
    for (const StoredTensor& tensor : stored) {
      if (tensor.name != spec.name) continue;
      if (tensor.type == spec.type && tensor.shape == spec.shape) return &tensor;
      return invalid(str(path, ": ", spec.name, " is ", tensor.describe(), ", not F32 ",
                         describe_shape(spec.shape)));
    }
    return invalid(str(path, " has no ", spec.name, "; it is the state of another model"));
  };
  if (stored.size() != specs.size()) {
    return invalid(str(
        path, " has ", stored.size(), " tensors, and ", specs.size(),
        " are trained; it is the state of another run (does the draft layer learn in one alone?)"));
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<float> values(static_cast<std::size_t>(tensors[i].parameters()));
    std::size_t at = 0;
    for (int copy = 0; copy < tensors[i].num_copies(); ++copy, ++next) {
      // As written: in order. Anything else is looked for.
      const bool in_order = stored[next].name == specs[next].name;
      const StoredTensor* tensor = &stored[next];
      if (!in_order || tensor->type != specs[next].type || tensor->shape != specs[next].shape) {
        GLINT_TRY(tensor, find(specs[next]));
      }
      std::memcpy(&values[at], tensor->bytes.data(), tensor->bytes.size());
      at += tensor->bytes.size() / sizeof(float);
    }
    GLINT_TRY_STATUS(take(i, values));
  }
  return Ok{};
}

}  // namespace glint
