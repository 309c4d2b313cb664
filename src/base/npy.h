// NumPy's .npy files: integers in, float32 out.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

// True if a file that begins with `bytes` is one.
bool is_npy(std::string_view bytes);

// A 1-D array is one row, a 2-D array its rows. int32 or int64, little-endian, C or Fortran order
// as NumPy writes them; refused: other types, other ranks, files that are shorter or longer than
// their header says, more than 2^30 values. An array without values has no rows.
Result<std::vector<std::vector<std::int64_t>>> read_npy_rows(const std::string& path);

// Writes a float32 array of a shape known beforehand, value after value. The file appears under its
// name with finish(); what was not written is zero.
class NpyWriter {
 public:
  // Reserves the space, so that a disk that is too small is known now.
  static Result<NpyWriter> create(const std::string& path, std::vector<std::int64_t> shape);
  NpyWriter(NpyWriter&&) = default;
  NpyWriter& operator=(NpyWriter&&) = default;
  ~NpyWriter();

  void append(std::span<const float> values);
  // Writes at `index` values from the start, for arrays that are not produced in order.
  void write_at(std::int64_t index, std::span<const float> values);
  // Syncs and renames.
  Status finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  NpyWriter() = default;
  void note(bool done);  // keeps errno of what was not

  std::string path_, beside_;
  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t data_begin_ = 0, expected_ = 0, next_ = 0;
  int failed_ = 0;  // the first error's number
};

}  // namespace glint
