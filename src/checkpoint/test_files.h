// For tests: safetensors files written as plainly as possible, and the values of a weight.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/str.h"
#include "tensor/weight.h"

namespace glint {

// A file with that header, whatever it says, and that data.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file.append(header).append(data);
}

struct TestTensor {
  std::string name, dtype, shape;  // "x", "BF16", "[2, 3]"
  std::string bytes;
};

// A correct file of those tensors.
inline std::string safetensors_file(const std::vector<TestTensor>& tensors) {
  std::string header = "{", data;
  for (const TestTensor& tensor : tensors) {
    header += str(header.size() > 1 ? "," : "", "\"", tensor.name, "\":{\"dtype\":\"", tensor.dtype,
                  "\",\"shape\":", tensor.shape, ",\"data_offsets\":[", data.size(), ",",
                  data.size() + tensor.bytes.size(), "]}");
    data += tensor.bytes;
  }
  return safetensors_file(header + "}", data);
}

template <class T>
std::string bytes_of_values(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline std::vector<float> row_of(const Weight& weight, std::int64_t n) {
  std::vector<float> row(static_cast<std::size_t>(weight.cols));
  dequantize_row(weight, n, row.data());
  return row;
}

}  // namespace glint
