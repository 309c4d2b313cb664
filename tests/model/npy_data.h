// The values of a committed .npy golden (C order), flat. `descr` is the type that its header must
// name: "<f4", "<i4" ...
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/file.h"

namespace glint {

template <class T>
std::vector<T> read_npy(const std::string& path, const char* descr) {
  const std::string file = read_file(path).value();
  std::uint16_t header = 0;
  std::memcpy(&header, file.data() + 8, 2);
  EXPECT_NE(file.substr(10, header).find(descr), std::string::npos) << path << " is no " << descr;
  std::vector<T> values((file.size() - 10 - header) / sizeof(T));
  std::memcpy(values.data(), file.data() + 10 + header, values.size() * sizeof(T));
  return values;
}

}  // namespace glint
