#include "base/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/test_dir.h"

namespace glint {
namespace {

std::string header(const std::string& fields) {
  std::string out = std::string("\x93NUMPY\x01\x00", 8);
  const std::uint16_t size = static_cast<std::uint16_t>(fields.size());
  return out.append(reinterpret_cast<const char*>(&size), 2) + fields;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// read_npy_rows() of a file with these bytes, as text: the rows, or the complaint.
std::string read(const std::string& contents) {
  const TestDir dir;
  const std::string path = dir.write("x.npy", contents);
  const auto rows = read_npy_rows(path);
  if (!rows.ok()) return rows.error().message.substr(path.size() + 1);
  std::string out;
  for (const auto& row : rows.value()) {
    for (const std::int64_t value : row) out += str(value, " ");
    out += "| ";
  }
  return out;
}

TEST(Npy, reads_integers_of_one_and_two_dims) {
  EXPECT_EQ(read(header("{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }\n") +
                 bytes_of<std::int64_t>({1, -2, 3})),
            "1 -2 3 | ");
  EXPECT_EQ(read(header("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }\n") +
                 bytes_of<std::int32_t>({1, 2, 3, 4})),
            "1 2 | 3 4 | ");
  EXPECT_EQ(read(header("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2), }\n") +
                 bytes_of<std::int32_t>({1, 2, 3, 4})),
            "1 3 | 2 4 | ");
}

TEST(Npy, refuses_what_it_cannot_read) {
  const auto fields = [](const std::string& descr, const std::string& shape) {
    return header(
        str("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, ", }\n"));
  };
  EXPECT_EQ(read("text"), "is not a .npy file");
  EXPECT_EQ(read(std::string("\x93NUMPY\x01\x00\xff\xff{}", 12)),
            "has a header that is longer than the file");
  for (const char* type : {"<f4", ">i8", "<u4", "|b1"}) {
    EXPECT_EQ(read(fields(type, "(1,)") + "abcd"),
              str("holds values of type \"", type,
                  "\"; expected little-endian int32 or int64, \"<i4\" or \"<i8\""));
  }
  EXPECT_EQ(read(fields("<i4", "(1, 1, 1)") + "abcd"), "has a shape that is neither 1-D nor 2-D");
  EXPECT_EQ(read(fields("<i4", "(-1,)") + "abcd"), "has a shape that is neither 1-D nor 2-D");
  EXPECT_EQ(read(fields("<i4", "(2,)") + "abcd"), "holds 4 bytes of values; its shape needs 8");
  EXPECT_EQ(read(fields("<i4", "(1,)") + "abcdefgh"), "holds 8 bytes of values; its shape needs 4");
  EXPECT_NE(read(fields("<i4", "(4000000000, 4000000000)")).find("holds more than"),
            std::string::npos);
  // A shape says how many rows there are, and no row need have a value.
  for (const char* shape : {"(9223372036854775807, 0)", "(0, 9223372036854775807)", "(0,)"}) {
    EXPECT_EQ(read(fields("<i4", shape)), "") << shape;
  }
}

TEST(Npy, a_file_appears_whole_or_not_at_all) {
  const TestDir dir;
  const std::string name = dir / "x.npy";
  {
    NpyWriter writer = NpyWriter::create(name, {2, 2}).value();
    writer.append(std::vector<float>{1, 2});
  }
  EXPECT_FALSE(file_exists(name));
  NpyWriter writer = NpyWriter::create(name, {2, 2}).value();
  writer.write_at(2, std::vector<float>{3, 4});
  writer.write_at(0, std::vector<float>{1, 2});
  ASSERT_TRUE(writer.finish().ok());
  const std::string file = read_file(name).value();
  EXPECT_NE(file.find("'shape': (2, 2)"), std::string::npos);
  EXPECT_EQ((file.size() - 16) % 64, 0u);
  EXPECT_EQ(file.substr(file.size() - 16), bytes_of<float>({1, 2, 3, 4}));
  EXPECT_FALSE(NpyWriter::create("/no/such/folder/x.npy", {1}).ok());
}

TEST(Npy, a_disk_that_is_too_small_is_known_before_anything_is_written) {
  const TestDir dir;
  const std::string name = dir / "x.npy";
  const auto writer = NpyWriter::create(name, {std::int64_t{1} << 45});
  ASSERT_FALSE(writer.ok());
  EXPECT_TRUE(writer.error().message.starts_with(name + " needs 128 TiB, but only "))
      << writer.error().message;
  EXPECT_FALSE(file_exists(str(name, ".tmp.", ::getpid())));
}

TEST(Npy, takes_the_place_of_files_only) {
  EXPECT_EQ(NpyWriter::create("/dev/null", {1}).error().message,
            "cannot write /dev/null: it is not a regular file");
  EXPECT_EQ(NpyWriter::create(::testing::TempDir(), {1}).error().message,
            "cannot write " + ::testing::TempDir() + ": it is a directory");
}

TEST(Npy, writing_through_a_link_leaves_the_link) {
  const TestDir dir;
  const std::string name = dir.write("x.npy", "old"), link = dir / "link";
  ASSERT_EQ(::symlink(name.c_str(), link.c_str()), 0);
  NpyWriter writer = NpyWriter::create(link, {1}).value();
  writer.append(std::vector<float>{1});
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_TRUE(is_npy(read_file(name).value()));
  EXPECT_EQ(read_file(link).value(), read_file(name).value());
  char target[1];
  EXPECT_EQ(::readlink(link.c_str(), target, 1), 1);
}

}  // namespace
}  // namespace glint
