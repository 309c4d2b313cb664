#include "train/gradient_file.h"

#include <cmath>
#include <filesystem>

#include "base/disk_space.h"
#include "base/file.h"
#include "base/system_error.h"
#include "train/parameter_file.h"
#include "train/parameter_part.h"

namespace glint {

std::vector<float> gradient_of(const Parameter& p, std::span<const float> values) {
  std::vector<float> stored(values.size());
  to_checkpoint_order(p, values, stored);
  return stored;
}

Status check_gradient_file(std::span<const ModelTensor> tensors, const std::string& path) {
  GLINT_TRY(const std::string file, find_replaceable(path));
  return check_free_space(file, bytes_of(specs_of(tensors)));
}

std::vector<float> whole_gradient(TrainRanks& ranks, const ModelTensor& tensor) {
  std::vector<float> whole(static_cast<std::size_t>(tensor.parameters()));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const ModelPartition& partition = ranks.model(rank).partition();
    const Parameter* const p = ranks.parameters(rank).find(tensor);
    if (!p || !speaks_for(tensor, partition)) continue;
    const std::vector<float> part = gradient_of(*p, ranks.parameters(rank).values_of(*p));
    put_part(tensor, box_of(tensor, partition), part, whole);
  }
  return whole;
}

Status write_gradients(TrainRanks& ranks, const std::string& name) {
  GLINT_TRY(const std::string path, find_replaceable(name));
  const std::string partial = path + ".partial";
  const std::vector<ModelTensor>& tensors = ranks.trained();
  std::vector<float> whole;
  const auto gradient = [&](std::size_t i) {
    whole = whole_gradient(ranks, tensors[i]);
    return std::span<const float>(whole);
  };
  Status status = write_parameter_file(tensors, gradient, partial);
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
  for (const ModelTensor& tensor : ranks.trained()) {
    for (const float value : whole_gradient(ranks, tensor)) sum += double{value} * value;
  }
  return std::sqrt(sum);
}

}  // namespace glint
