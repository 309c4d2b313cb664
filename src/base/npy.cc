#include "base/npy.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/disk_space.h"
#include "base/file.h"
#include "base/file_beside.h"
#include "base/parse_number.h"
#include "base/str.h"
#include "base/system_error.h"

namespace glint {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::int64_t kMaxValues = std::int64_t{1} << 30;

// The text after `'key': ` in a header such as {'descr': '<i8', 'fortran_order': False, 'shape':
// (3, 4), }.
std::string_view field(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(str("'", key, "':"));
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size() + 3);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return rest;
}

// The dims of "(3, 4), ...": empty if it is none.
std::vector<std::int64_t> parse_shape(std::string_view text) {
  std::vector<std::int64_t> shape;
  const std::size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos) return {};
  for (std::string_view dim : split(text.substr(1, end - 1), ',')) {
    while (dim.starts_with(' ')) dim.remove_prefix(1);
    if (dim.empty()) continue;
    const std::int64_t value = parse_number<std::int64_t>(dim).value_or(-1);
    if (value < 0) return {};
    shape.push_back(value);
  }
  return shape;
}

std::string_view without_quotes(std::string_view text) {
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'')
    return text.substr(1, text.size() - 2);
  return text;
}

}  // namespace

bool is_npy(std::string_view bytes) { return bytes.starts_with(kMagic); }

Result<std::vector<std::vector<std::int64_t>>> read_npy_rows(const std::string& path) {
  GLINT_TRY(const std::string file, read_file(path, std::size_t{16} << 30));
  const auto bad = [&](const std::string& why) { return invalid(str(path, " ", why)); };
  if (!is_npy(file) || file.size() < 12) return bad("is not a .npy file");
  const bool long_header = file[6] >= 2;
  const std::size_t prefix = long_header ? 12 : 10;
  std::uint32_t header_size = 0;
  std::memcpy(&header_size, file.data() + 8, long_header ? 4 : 2);
  if (header_size > file.size() - prefix) return bad("has a header that is longer than the file");
  const std::string_view header = std::string_view(file).substr(prefix, header_size);
  const std::string_view descr = field(header, "descr");
  const int width = descr.starts_with("'<i8'") ? 8 : descr.starts_with("'<i4'") ? 4 : 0;
  if (!width)
    return bad(str("holds values of type ",
                   quoted(without_quotes(descr.substr(0, descr.find(',')))),
                   "; expected little-endian int32 or int64, \"<i4\" or \"<i8\""));
  const std::vector<std::int64_t> shape = parse_shape(field(header, "shape"));
  if (shape.empty() || shape.size() > 2) return bad("has a shape that is neither 1-D nor 2-D");
  const std::int64_t rows = shape.size() == 1 ? 1 : shape[0], columns = shape.back();
  if (rows > 0 && columns > kMaxValues / rows)
    return bad(str("holds more than ", kMaxValues, " values"));
  if (rows == 0 || columns == 0) return std::vector<std::vector<std::int64_t>>{};
  const std::string_view data = std::string_view(file).substr(prefix + header_size);
  if (data.size() != static_cast<std::size_t>(rows * columns * width)) {
    return bad(
        str("holds ", data.size(), " bytes of values; its shape needs ", rows * columns * width));
  }
  const bool fortran = field(header, "fortran_order").starts_with("True");
  std::vector<std::vector<std::int64_t>> out(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const char* at = data.data() + (fortran ? c * rows + r : r * columns + c) * width;
      std::int64_t value = 0;
      if (width == 8) {
        std::memcpy(&value, at, 8);
      } else {
        std::int32_t narrow = 0;
        std::memcpy(&narrow, at, 4);
        value = narrow;
      }
      out[r].push_back(value);
    }
  }
  return out;
}

Result<NpyWriter> NpyWriter::create(const std::string& path, std::vector<std::int64_t> shape) {
  NpyWriter writer;
  GLINT_TRY(writer.path_, find_replaceable(path));
  GLINT_TRY(FileBeside created, create_beside(writer.path_));
  writer.beside_ = created.path;
  writer.file_.reset(::fdopen(created.file.release(), "wb"));
  if (!writer.file_) return system_error("cannot open", writer.beside_, errno);
  writer.expected_ = 1;
  std::string dims;
  for (const std::int64_t dim : shape) {
    writer.expected_ *= dim;
    dims += str(dim, ", ");
  }
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  std::string header = str("{'descr': '<f4', 'fortran_order': False, 'shape': (", dims, "), }");
  // Data begins at a multiple of 64 bytes; the header ends in a newline.
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ') += '\n';
  const std::uint16_t size = static_cast<std::uint16_t>(header.size());
  std::string start = std::string(kMagic) + std::string("\x01\x00", 2);
  start.append(reinterpret_cast<const char*>(&size), 2) += header;
  writer.data_begin_ = static_cast<std::int64_t>(start.size());
  const std::int64_t bytes = writer.data_begin_ + writer.expected_ * 4;
  GLINT_TRY_STATUS(check_free_space(writer.path_, bytes));
  GLINT_TRY_STATUS(reserve_space(::fileno(writer.file_.get()), path, bytes));
  writer.note(std::fwrite(start.data(), 1, start.size(), writer.file_.get()) == start.size());
  return writer;
}

NpyWriter::~NpyWriter() {
  if (file_) ::unlink(beside_.c_str());
}

void NpyWriter::note(bool done) {
  if (!done && !failed_) failed_ = errno ? errno : EIO;
}

void NpyWriter::append(std::span<const float> values) { write_at(next_, values); }

void NpyWriter::write_at(std::int64_t index, std::span<const float> values) {
  GLINT_CHECK(index >= 0 && index + static_cast<std::int64_t>(values.size()) <= expected_,
              "more values than the shape holds");
  note(::fseeko(file_.get(), data_begin_ + index * 4, SEEK_SET) == 0);
  note(std::fwrite(values.data(), 4, values.size(), file_.get()) == values.size());
  next_ = index + static_cast<std::int64_t>(values.size());
}

Status NpyWriter::finish() {
  note(std::fflush(file_.get()) == 0);
  note(::fsync(::fileno(file_.get())) == 0);
  if (!failed_) note(::rename(beside_.c_str(), path_.c_str()) == 0);
  if (failed_) {
    return system_error("cannot write", path_, failed_);
  }
  file_.reset();
  return Ok{};
}

}  // namespace glint
