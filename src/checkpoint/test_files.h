// For tests: a directory that goes away, safetensors files written as plainly as possible, and the
// values of a weight.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/str.h"
#include "tensor/weight.h"

namespace glint {

class TestDir {
 public:
  TestDir()
      : path_(str(testing::TempDir(), "/glint_", ::getpid(), "_",
                  testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestDir() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return str(path_, "/", name); }
  std::string write(std::string_view name, std::string_view contents) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    EXPECT_TRUE(write_file_atomic(path, contents).ok());
    return path;
  }

 private:
  const std::string path_;
};

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
