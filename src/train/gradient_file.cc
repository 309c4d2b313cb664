#include "train/gradient_file.h"

#include <cmath>
#include <filesystem>

#include "base/str.h"
#include "model/cut_weight.h"
#include "train/parameter_file.h"

namespace glint {
namespace {

std::vector<float> on_host(const Tensor& gradient, Device& device) {
  std::vector<float> values(static_cast<std::size_t>(gradient.size()));
  device.copy_out(values.data(), gradient.data, values.size() * sizeof(float));
  return values;
}

}  // namespace

std::vector<float> gradient_of(const Parameter& p, Device& device) {
  std::vector<float> values = on_host(p.gradient, device);
  if (p.is_kv_b()) {
    const std::vector<float> more = on_host(p.gradient_of_values, device);
    values.insert(values.end(), more.begin(), more.end());
  }
  return to_checkpoint_order(p, values);
}

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

std::vector<float> whole_gradient(TrainRanks& ranks, std::size_t i) {
  const auto part_of = [&](int rank) {
    return gradient_of(ranks.parameters(rank).all()[i], ranks.tape(rank).device());
  };
  const ModelTensor& tensor = ranks.parameters().all()[i].tensor;
  if (!ranks.is_divided(tensor)) return part_of(0);
  // Whole experts, one after another; or of each expert, or each row, the stretches of all ranks.
  const bool has_experts = ranks.shape().tp == 1;
  const std::int64_t pieces = has_experts         ? 1
                              : is_summed(tensor) ? tensor.num_copies() * tensor.rows
                                                  : tensor.num_copies();
  std::vector<std::vector<float>> parts;
  for (int rank = 0; rank < (has_experts ? ranks.shape().ep : ranks.shape().tp); ++rank) {
    parts.push_back(part_of(rank));
  }
  std::vector<float> whole;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    for (const std::vector<float>& part : parts) {
      const std::int64_t size = std::ssize(part) / pieces;
      whole.insert(whole.end(), part.begin() + piece * size, part.begin() + (piece + 1) * size);
    }
  }
  return whole;
}

Status write_gradients(TrainRanks& ranks, const std::string& path) {
  const std::string partial = path + ".partial";
  Status status = write_parameter_file(
      ranks.parameters(), [&](std::size_t i) { return whole_gradient(ranks, i); }, partial);
  std::error_code error;
  if (status.ok()) {
    std::filesystem::rename(partial, path, error);
    if (error) status = system_error("cannot write", path, error.value());
  }
  if (!status.ok()) std::filesystem::remove(partial, error);
  return status;
}

double norm_of(TrainRanks& ranks) {
  double sum = 0;
  for (std::size_t i = 0; i < ranks.parameters().all().size(); ++i) {
    for (const float value : whole_gradient(ranks, i)) sum += double{value} * value;
  }
  return std::sqrt(sum);
}

}  // namespace glint
