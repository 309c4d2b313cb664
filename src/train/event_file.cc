#include "train/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/seconds.h"
#include "base/str.h"

namespace glint {
namespace {

std::string little_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

// Fields of protocol buffers: number and wire type, then the value.
std::string integer_field(int number, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3) +
         varint(static_cast<std::uint64_t>(value));
}
std::string double_field(int number, double value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 1) +
         little_endian(std::bit_cast<std::uint64_t>(value), 8);
}
std::string bytes_field(int number, std::string_view value) {
  return str(varint(static_cast<std::uint64_t>(number) << 3 | 2), varint(value.size()), value);
}
std::string float_field(int number, float value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 5) +
         little_endian(std::bit_cast<std::uint32_t>(value), 4);
}

// message Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary =
// 5; SessionLog session_log = 7; }
std::string event_at(std::int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return double_field(1, now.count()) + integer_field(2, step);
}

// message Summary { repeated Value value = 1; } of { string tag = 1; float simple_value = 2; }
std::string summary_value(std::string_view tag, double value) {
  return bytes_field(1, bytes_field(1, tag) + float_field(2, static_cast<float>(value)));
}

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    table[i] = crc;
  }
  return table;
}();

// A checksum of bytes that hold checksums of their own: TensorFlow masks them.
std::string masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return little_endian(std::rotr(crc, 15) + 0xa282ead8u, 4);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes)
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 255];
  return ~crc;
}

std::string framed_record(std::string_view bytes) {
  const std::string length = little_endian(bytes.size(), 8);
  return str(length, masked_crc(length), bytes, masked_crc(bytes));
}

Result<EventFile> EventFile::open(const std::string& dir, std::int64_t first_step) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return invalid(str("cannot create ", dir, ": ", error.message()));
  EventFile file;
  file.path_ = str(dir, "/events.out.tfevents.", unix_seconds(), ".glint.", getpid());
  GLINT_TRY_STATUS(file.append(event_at(0) + bytes_field(3, "brain.Event:2")));
  // SessionLog { status = 1: START = 1 } drops what was written from this step on.
  GLINT_TRY_STATUS(file.append(event_at(first_step) + bytes_field(7, integer_field(1, 1))));
  return file;
}

Status EventFile::add(std::int64_t step, const Json& values) {
  std::string summary;
  for (const auto& [name, value] : values.as_object()) {
    if (value.is_number() && name.find('/') != name.npos) {
      summary += summary_value(name, value.as_double());
    }
  }
  return append(event_at(step) + bytes_field(5, summary));
}

Status EventFile::append(std::string_view event) const {
  std::ofstream out(path_, std::ios::app | std::ios::binary);
  out << framed_record(event) << std::flush;
  if (!out) return invalid(str("cannot write ", path_, ": is the disk full?"));
  return Ok{};
}

}  // namespace glint
