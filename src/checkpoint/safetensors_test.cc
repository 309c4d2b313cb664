#include "checkpoint/safetensors.h"

#include "base/test_dir.h"
#include "checkpoint/test_files.h"

namespace glint {
namespace {

std::string refusal(std::string_view file) {
  const auto tensors =
      parse_safetensors({reinterpret_cast<const std::byte*>(file.data()), file.size()});
  return tensors.ok() ? "accepted" : tensors.error().message;
}

// The refusal of a file with one tensor, "x": `entry`, and `num_bytes` of data.
std::string refusal_of(const std::string& entry, std::size_t num_bytes) {
  return refusal(safetensors_file("{\"x\":" + entry + "}", std::string(num_bytes, '\0')));
}

std::string open_refusal(const std::string& dir) {
  const auto source = SafetensorsSource::open(dir);
  return source.ok() ? "accepted" : source.error().message;
}

TEST(Safetensors, tensors_come_in_the_order_of_their_bytes) {
  const std::string file = safetensors_file(
      R"({"__metadata__":{"format":"pt"},
          "b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]},
          "empty":{"dtype":"F32","shape":[0,3],"data_offsets":[4,4]},
          "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
      "abcdefgh");
  const auto tensors =
      parse_safetensors({reinterpret_cast<const std::byte*>(file.data()), file.size()}).value();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].describe(), "F32 []");
  EXPECT_EQ(tensors[1].name, "empty");
  EXPECT_EQ(tensors[2].describe(), "BF16 [2]");
  EXPECT_EQ(static_cast<char>(tensors[2].bytes[0]), 'e');
}

TEST(Safetensors, a_file_that_is_cut_short_is_told) {
  EXPECT_EQ(refusal(""),
            "the file is cut short: it has 0 bytes, fewer than the 8 of the header's "
            "length");
  EXPECT_EQ(refusal(safetensors_file("{}", "").substr(0, 9)),
            "the header should have 2 bytes, but only 1 follow its length");
  EXPECT_EQ(refusal_of(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 7),
            "the file is cut short: tensor \"x\" ends at byte 8 of the data, of which there are 7");
  EXPECT_EQ(refusal_of(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 9),
            "the tensors end at byte 8 of the data, but there are 9");
}

TEST(Safetensors, absurd_headers_are_refused_before_they_are_read) {
  EXPECT_EQ(refusal(std::string(8, '\xff') + "{}"),
            "the header should have 18446744073709551615 bytes, but only 2 follow its length");
  EXPECT_EQ(refusal(safetensors_file(std::string(100'000'001, ' '), "")),
            "the header has 100000001 bytes; expected at most 100000000");
  const std::string nested = refusal(safetensors_file(std::string(100'000'000, '['), ""));
  EXPECT_TRUE(nested.starts_with("the header: line 1, column ")) << nested;
  std::string zeros = "{\"x\":[0";
  for (int i = 0; i < 5'000'000; ++i) zeros += ",0";
  const std::string many = refusal(safetensors_file(zeros + "]}", ""));
  EXPECT_TRUE(many.ends_with("too many values")) << many;
  EXPECT_EQ(refusal(safetensors_file("[]", "")), "the header is a list; expected an object");
  EXPECT_TRUE(refusal(safetensors_file("{", "")).starts_with("the header: line 1, column 2: "));
}

TEST(Safetensors, names_that_repeat_are_refused) {
  const std::string x = R"("x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  const std::string found = refusal(safetensors_file("{" + x + "," + x + "}", "a"));
  EXPECT_TRUE(found.ends_with("repeated key \"x\"")) << found;
}

TEST(Safetensors, entries_of_the_wrong_kind_are_refused_by_name) {
  EXPECT_EQ(refusal_of("3", 0), "tensor \"x\": its entry is an integer; expected an object");
  EXPECT_EQ(refusal_of("{}", 0), "tensor \"x\": dtype is missing; expected a text");
  EXPECT_EQ(refusal_of(R"({"dtype":"Q4","shape":[1],"data_offsets":[0,1]})", 1),
            "tensor \"x\": dtype is \"Q4\"; expected one of safetensors'");
  EXPECT_EQ(refusal_of(R"({"dtype":"U8","data_offsets":[0,1]})", 1),
            "tensor \"x\": shape is missing; expected a list");
  EXPECT_EQ(refusal_of(R"({"dtype":"U8","shape":"1","data_offsets":[0,1]})", 1),
            "tensor \"x\": shape is a text; expected a list");
  EXPECT_EQ(refusal_of(R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})", 1),
            "tensor \"x\": shape holds a negative number; expected sizes that fit in 63 bits");
  EXPECT_EQ(refusal_of(R"({"dtype":"U8","shape":[1.5],"data_offsets":[0,1]})", 1),
            "tensor \"x\": shape holds a number; expected sizes that fit in 63 bits");
  EXPECT_EQ(refusal_of(R"({"dtype":"U8","shape":[1],"data_offsets":[1]})", 1),
            "tensor \"x\": data_offsets is [1]; expected [begin, end]");
  EXPECT_EQ(refusal_of(R"({"dtype":"U8","shape":[1],"data_offsets":[1,0]})", 1),
            "tensor \"x\": data_offsets is [1, 0]; expected [begin, end]");
}

TEST(Safetensors, shapes_that_do_not_fit_their_bytes_are_refused) {
  EXPECT_EQ(refusal_of(R"({"dtype":"BF16","shape":[2,3],"data_offsets":[0,8]})", 8),
            "tensor \"x\": BF16 [2, 3] takes 12 bytes, but data_offsets [0, 8] span 8");
  EXPECT_EQ(
      refusal_of(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0),
      "tensor \"x\": shape [4294967296, 4294967296] overflows");
  EXPECT_EQ(
      refusal_of(R"({"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]})", 0),
      "accepted");
  EXPECT_EQ(
      refusal_of(R"({"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]})", 0),
      "tensor \"x\": shape [4294967296, 4294967296, 0] overflows");
  EXPECT_EQ(refusal_of(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})", 1),
            "tensor \"x\": F4 [3] does not end on a whole byte");
}

TEST(Safetensors, tensors_must_tile_the_data) {
  const auto two = [](int begin) {
    return refusal(safetensors_file(
        str(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)",
            R"("y":{"dtype":"U8","shape":[4],"data_offsets":[)", begin, ",", begin + 4, "]}}"),
        std::string(static_cast<std::size_t>(begin + 4), '\0')));
  };
  EXPECT_EQ(two(4), "accepted");
  EXPECT_EQ(two(3),
            "tensor \"y\" begins at byte 3 of the data and overlaps tensor \"x\", which ends "
            "at 4");
  EXPECT_EQ(two(5),
            "tensor \"y\" begins at byte 5 of the data and leaves a gap after tensor \"x\", "
            "which ends at 4");
}

const char kIndex[] = "model.safetensors.index.json";

TEST(SafetensorsDir, shards_are_found_by_index_by_name_or_by_listing) {
  const TestDir dir;
  const std::string one = safetensors_file({{"a", "U8", "[1]", "1"}});
  const std::string two = safetensors_file({{"b", "U8", "[1]", "2"}});
  dir.write("x-00001.safetensors", one);
  dir.write("x-00002.safetensors", two);
  EXPECT_EQ(SafetensorsSource::open(dir.path()).value()->tensors().size(), 2u);
  dir.write("model.safetensors", safetensors_file({{"c", "U8", "[1]", "3"}}));
  EXPECT_EQ(SafetensorsSource::open(dir.path()).value()->tensors()[0].name, "c");
  dir.write(kIndex, R"({"weight_map": {"b": "x-00002.safetensors"}})");
  const auto source = SafetensorsSource::open(dir.path()).value();
  ASSERT_EQ(source->tensors().size(), 1u);
  EXPECT_EQ(source->find("b"), source->tensors().data());
  EXPECT_EQ(source->find("a"), nullptr);
  EXPECT_EQ(source->file_name(0), dir / "x-00002.safetensors");
}

TEST(SafetensorsDir, a_draft_layer_in_a_file_of_its_own_is_found_though_the_index_lacks_it) {
  const TestDir dir;
  dir.write("x.safetensors", safetensors_file({{"a", "U8", "[1]", "1"}}));
  dir.write("mtp.safetensors", safetensors_file({{"b", "U8", "[1]", "2"}}));
  dir.write("other.safetensors", safetensors_file({{"a", "U8", "[1]", "3"}}));
  for (const char* map : {R"({"weight_map": {"a": "x.safetensors"}})",
                          R"({"weight_map": {"a": "x.safetensors", "b": "mtp.safetensors"}})"}) {
    dir.write(kIndex, map);
    const auto source = SafetensorsSource::open(dir.path()).value();
    EXPECT_EQ(source->tensors().size(), 2u);
    ASSERT_NE(source->find("b"), nullptr);
    EXPECT_EQ(source->file_name(source->find("b")->file), dir / "mtp.safetensors");
  }
}

TEST(SafetensorsDir, what_is_missing_is_named) {
  const TestDir dir;
  EXPECT_EQ(open_refusal(dir.path()),
            dir.path() + " holds no weights; expected model.safetensors or " + kIndex);
  EXPECT_EQ(open_refusal(dir / "absent"),
            str("cannot list ", dir / "absent", ": No such file or directory"));
  const std::string index = dir.write(kIndex, R"({"weight_map": {"b": "x.safetensors"}})");
  EXPECT_EQ(open_refusal(dir.path()), index + " names shard \"x.safetensors\", which is not there");
  dir.write("x.safetensors", safetensors_file({{"a", "U8", "[1]", "1"}}));
  EXPECT_EQ(open_refusal(dir.path()), index +
                                          " says that tensor \"b\" is in \"x.safetensors\", "
                                          "which does not hold it");
}

TEST(SafetensorsDir, a_bad_index_is_refused) {
  const TestDir dir;
  dir.write(kIndex, "{}");
  EXPECT_EQ(open_refusal(dir.path()),
            dir / kIndex + ": weight_map is missing; expected an object from tensor to shard");
  dir.write(kIndex, R"({"weight_map": {"b": 1}})");
  EXPECT_EQ(
      open_refusal(dir.path()),
      dir / kIndex + ": weight_map gives tensor \"b\" an integer; expected the name of a file");
  dir.write(kIndex, R"({"weight_map": {"b": "../secret.safetensors"}})");
  EXPECT_EQ(open_refusal(dir.path()), dir / kIndex +
                                          ": weight_map gives tensor \"b\" "
                                          "\"../secret.safetensors\"; expected the name of a file");
  dir.write("x", "of another name");
  dir.write(kIndex, R"({"weight_map": {"b": "x\u0000y"}})");
  EXPECT_NE(open_refusal(dir.path()).find("expected the name of a file"), std::string::npos);
  dir.write(kIndex, R"({"weight_map": {"b": "x", "b": "y"}})");
  EXPECT_NE(open_refusal(dir.path()).find("repeated key \"b\""), std::string::npos);
}

TEST(SafetensorsDir, a_tensor_in_two_files_is_refused) {
  const TestDir dir;
  const std::string file = safetensors_file({{"a", "U8", "[1]", "1"}});
  dir.write("x.safetensors", file);
  dir.write("y.safetensors", file);
  EXPECT_EQ(open_refusal(dir.path()),
            str("tensor \"a\" is in both ", dir / "x.safetensors", " and ", dir / "y.safetensors"));
}

TEST(SafetensorsDir, links_that_loop_and_git_lfs_pointers_are_named) {
  const TestDir dir;
  std::filesystem::create_symlink("model.safetensors", dir / "model.safetensors");
  EXPECT_EQ(open_refusal(dir.path()),
            str("cannot open ", dir / "model.safetensors", ": Too many levels of symbolic links"));
  std::filesystem::remove(dir / "model.safetensors");
  dir.write("model.safetensors",
            "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
  EXPECT_EQ(open_refusal(dir.path()),
            dir / "model.safetensors" +
                " is a git-lfs pointer, not the file: run \"git lfs pull\" beside it");
  std::filesystem::remove(dir / "model.safetensors");
  std::filesystem::create_directory(dir / "model.safetensors");
  EXPECT_EQ(open_refusal(dir.path()),
            dir / "model.safetensors" + " is a directory; a file is expected");
}

TEST(SafetensorsDir, errors_inside_a_file_begin_with_its_name) {
  const TestDir dir;
  dir.write("model.safetensors", "short");
  EXPECT_TRUE(
      open_refusal(dir.path()).starts_with(dir / "model.safetensors" + ": the file is cut"));
}

}  // namespace
}  // namespace glint
