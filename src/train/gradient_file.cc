#include "train/gradient_file.h"

#include <cmath>
#include <filesystem>

#include "base/str.h"
#include "train/parameter_file.h"

namespace glint {
namespace {

std::vector<float> on_host(const Tensor& gradient, Device& device) {
  std::vector<float> values(static_cast<std::size_t>(gradient.size()));
  device.copy_out(values.data(), gradient.data, values.size() * sizeof(float));
  return values;
}

// As the parameter file wants them: kv_b_proj's two halves one after the other.
std::vector<float> gradient_of(const Parameter& p, Device& device) {
  std::vector<float> values = on_host(p.gradient, device);
  if (p.is_kv_b()) {
    const std::vector<float> more = on_host(p.gradient_of_values, device);
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
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
  const std::string partial = path + ".partial";
  Status status = write_parameter_file(
      parameters, [&](const Parameter& p) { return gradient_of(p, device); }, partial);
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
