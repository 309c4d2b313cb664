#include "train/gradient_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/str.h"
#include "checkpoint/shard.h"

namespace glint {
namespace {

std::vector<float> on_host(const Tensor& gradient, Device& device) {
  std::vector<float> values(static_cast<std::size_t>(gradient.size()));
  device.copy_out(values.data(), gradient.data, values.size() * sizeof(float));
  return values;
}

// Head after head: the transpose of d(w_uk) [latent, nope], then d(w_uv) [v, latent].
std::vector<float> joined(const Parameter& p, Device& device) {
  const std::vector<float> keys = on_host(p.gradient, device);
  const std::vector<float> values = on_host(p.gradient_of_values, device);
  const std::int64_t heads = p.gradient.dim(0), latent = p.gradient.dim(1);
  const std::int64_t nope = p.gradient.dim(2), v = p.gradient_of_values.dim(1);
  std::vector<float> all;
  all.reserve(keys.size() + values.size());
  for (std::int64_t h = 0; h < heads; ++h) {
    const float* const key = &keys[static_cast<std::size_t>(h * latent * nope)];
    for (std::int64_t a = 0; a < nope; ++a) {
      for (std::int64_t l = 0; l < latent; ++l) all.push_back(key[l * nope + a]);
    }
    const float* const value = &values[static_cast<std::size_t>(h * v * latent)];
    all.insert(all.end(), value, value + v * latent);
  }
  return all;
}

std::vector<TensorSpec> specs_of(const Parameters& parameters) {
  std::vector<TensorSpec> specs;
  for (const Parameter& p : parameters.all()) {
    for (int copy = 0; copy < p.tensor.num_copies(); ++copy) {
      const std::string name = p.tensor.name_of_copy(copy);
      TensorSpec spec = {.name = name, .type = StoredType::kF32, .shape = {p.tensor.cols}};
      if (p.tensor.is_matrix()) {
        spec.name += ".weight";
        spec.shape = {p.tensor.rows, p.tensor.cols};
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

}  // namespace

Status check_gradient_file(const Parameters& parameters, const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return invalid(path + " is a directory; give the name of a file");
  }
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty() && !std::filesystem::is_directory(parent, error)) {
    return invalid(str("there is no directory ", parent.string(), " to write ", path, " to"));
  }
  return check_free_space(path, bytes_of(specs_of(parameters)));
}

Status write_gradients(const Parameters& parameters, Device& device, const std::string& path) {
  const std::vector<TensorSpec> specs = specs_of(parameters);
  const std::string partial = path + ".partial";
  const auto write = [&]() -> Status {
    GLINT_TRY(ShardFile file, ShardFile::create(partial, shard_head(specs), bytes_of(specs)));
    std::int64_t offset = 0;
    for (const Parameter& p : parameters.all()) {
      const std::vector<float> values =
          p.is_kv_b() ? joined(p, device) : on_host(p.gradient, device);
      GLINT_TRY_STATUS(file.write(offset, std::as_bytes(std::span(values))));
      offset += static_cast<std::int64_t>(values.size() * sizeof(float));
    }
    return file.finish();
  };
  Status status = write();
  std::error_code error;
  if (status.ok()) {
    std::filesystem::rename(partial, path, error);
    if (error) status = system_error("cannot write", path, error.value());
  }
  if (!status.ok()) std::filesystem::remove(partial, error);
  return status;
}

double norm_of(const Parameters& parameters, Device& device) {
  double sum = 0;
  for (const Parameter& p : parameters.all()) {
    for (const Tensor& gradient : {p.gradient, p.gradient_of_values}) {
      if (!gradient) continue;
      for (const float value : on_host(gradient, device)) sum += double{value} * value;
    }
  }
  return std::sqrt(sum);
}

}  // namespace glint
