#include "checkpoint/writer.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/test_dir.h"
#include "checkpoint/safetensors.h"

static ino_t broken_inode = 0;  // that cannot be synced

// In place of the C library's.
extern "C" int fsync(int file) {
  struct stat info = {};
  if (broken_inode != 0 && ::fstat(file, &info) == 0 && info.st_ino == broken_inode) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace glint {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(const StoredTensor& tensor) {
  return std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
}

std::vector<TensorSpec> three_tensors() {
  return {
      {"a", StoredType::kU8, {2, 3}}, {"b", StoredType::kBF16, {2}}, {"c", StoredType::kU8, {}}};
}

TEST(CheckpointWriter, what_is_written_in_any_order_is_read_back) {
  const TestDir dir;
  const std::string out = dir / "out";
  CheckpointWriter writer = CheckpointWriter::create(out, three_tensors()).value();
  EXPECT_FALSE(is_directory(out));
  ASSERT_TRUE(writer.write(2, 0, bytes("!")).ok());
  ASSERT_TRUE(writer.write(0, 4, bytes("ef")).ok());
  ASSERT_TRUE(writer.write(0, 0, bytes("abcd")).ok());
  ASSERT_TRUE(writer.add_file("config.json", "{}").ok());
  ASSERT_TRUE(writer.finish().ok());
  const auto source = SafetensorsSource::open(out).value();
  EXPECT_EQ(text_of(*source->find("a")), "abcdef");
  EXPECT_EQ(source->find("a")->describe(), "U8 [2, 3]");
  EXPECT_EQ(text_of(*source->find("b")), std::string(4, '\0'));
  EXPECT_EQ(text_of(*source->find("c")), "!");
  EXPECT_EQ(source->file_name(0), out + "/model.safetensors");
  EXPECT_EQ(read_file(out + "/config.json").value(), "{}");
  EXPECT_FALSE(is_directory(out + ".partial"));
}

TEST(CheckpointWriter, shards_end_before_they_are_too_large_and_have_an_index) {
  const TestDir dir;
  const std::string out = dir / "out/";
  CheckpointWriter writer = CheckpointWriter::create(out, three_tensors(), 5).value();
  ASSERT_TRUE(writer.write(1, 0, bytes("wxyz")).ok());
  ASSERT_TRUE(writer.write(2, 0, bytes("!")).ok());
  ASSERT_TRUE(writer.finish().ok());
  const auto source = SafetensorsSource::open(dir / "out").value();
  EXPECT_EQ(source->file_name(source->find("a")->file),
            dir / "out/model-00001-of-00002.safetensors");
  EXPECT_EQ(source->file_name(source->find("c")->file),
            dir / "out/model-00002-of-00002.safetensors");
  EXPECT_EQ(text_of(*source->find("b")), "wxyz");
  const Json index = read_json_file(dir / "out/model.safetensors.index.json").value();
  EXPECT_EQ(index.find("metadata")->find("total_size")->as_int(), 11);
}

TEST(Shards, are_cut_between_units_only) {
  std::vector<TensorSpec> tensors;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    tensors.push_back({name, StoredType::kU8, {40}});
  }
  const auto ends = [&](std::int64_t max_bytes, const std::vector<std::size_t>& units) {
    std::vector<std::size_t> out;
    for (const Shard& shard : plan_shards(tensors, max_bytes, units)) out.push_back(shard.end);
    return out;
  };
  EXPECT_EQ(ends(100, {}), (std::vector<std::size_t>{2, 4, 5}));
  EXPECT_EQ(ends(100, {0, 1, 3}), (std::vector<std::size_t>{1, 3, 5}));
  EXPECT_EQ(ends(50, {0, 1, 3}), (std::vector<std::size_t>{1, 3, 5}));  // larger than a shard
  EXPECT_EQ(ends(1000, {0, 1, 3}), (std::vector<std::size_t>{5}));
}

TEST(CheckpointWriter, an_unfinished_directory_leaves_nothing) {
  const TestDir dir;
  { CheckpointWriter writer = CheckpointWriter::create(dir / "out", three_tensors()).value(); }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(CheckpointWriter, an_unfinished_directory_leaves_an_empty_one_of_its_name) {
  const TestDir dir;
  std::filesystem::create_directory(dir / "out");
  { CheckpointWriter writer = CheckpointWriter::create(dir / "out", three_tensors()).value(); }
  EXPECT_TRUE(std::filesystem::remove(dir / "out"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(CheckpointWriter, an_empty_directory_of_that_name_is_filled) {
  const TestDir dir;
  std::filesystem::create_directory(dir / "out");
  ASSERT_EQ(::chmod((dir / "out").c_str(), 0750), 0);
  struct stat before = {}, after = {};
  ASSERT_EQ(::stat((dir / "out").c_str(), &before), 0);
  CheckpointWriter writer = CheckpointWriter::create(dir / "out/", three_tensors()).value();
  ASSERT_TRUE(writer.add_file("config.json", "{}").ok());
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_TRUE(file_exists(dir / "out/model.safetensors"));
  EXPECT_TRUE(file_exists(dir / "out/config.json"));
  EXPECT_FALSE(is_directory(dir / "out.partial"));
  ASSERT_EQ(::stat((dir / "out").c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino) << "who works in it sees the files";
  EXPECT_EQ(after.st_mode, before.st_mode);
}

TEST(CheckpointWriter, a_directory_that_cannot_be_synced_stays_empty) {
  const TestDir dir;
  std::filesystem::create_directory(dir / "out");
  struct stat out = {};
  ASSERT_EQ(::stat((dir / "out").c_str(), &out), 0);
  for (const char* last : {"config.json", "other.json"}) {  // synced before it, and at the end
    CheckpointWriter writer = CheckpointWriter::create(dir / "out", three_tensors()).value();
    ASSERT_TRUE(writer.add_file(last, "{}").ok());
    broken_inode = out.st_ino;
    const Status status = writer.finish();
    broken_inode = 0;
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().message, "cannot sync " + dir / "out" + ": Input/output error");
    EXPECT_TRUE(std::filesystem::is_empty(dir / "out"));
    EXPECT_TRUE(file_exists(dir / "out.partial/model.safetensors"));
  }
}

TEST(CheckpointWriter, files_that_came_into_the_directory_meanwhile_stay) {
  const TestDir dir;
  std::filesystem::create_directory(dir / "out");
  CheckpointWriter writer = CheckpointWriter::create(dir / "out", three_tensors()).value();
  ASSERT_TRUE(writer.add_file("config.json", "{}").ok());
  dir.write("out/config.json", "mine");
  const Status status = writer.finish();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            dir / "out is not empty any more; empty it, and run the command again");
  EXPECT_EQ(read_file(dir / "out/config.json").value(), "mine");
  EXPECT_FALSE(file_exists(dir / "out/model.safetensors"));
}

TEST(CheckpointWriter, refuses_to_write_over_anything) {
  const TestDir dir;
  const auto refusal = [](const std::string& path, std::vector<TensorSpec> tensors) {
    return CheckpointWriter::create(path, std::move(tensors)).error().message;
  };
  const std::string file = dir.write("file", "");
  EXPECT_EQ(refusal(file, three_tensors()),
            str(file, " exists; expected a directory that is empty or yet to be made"));
  EXPECT_EQ(refusal("", three_tensors()), "the directory to make has no name");
  EXPECT_EQ(refusal("/", three_tensors()),
            "/ exists; expected a directory that is empty or yet to be made");
  const std::string long_name = dir / std::string(300, 'x');  // nobody can look for it there
  EXPECT_EQ(refusal(long_name, three_tensors()),
            str("cannot create ", long_name, ": File name too long"));
  CheckpointWriter first = CheckpointWriter::create(dir / "out", three_tensors()).value();
  EXPECT_EQ(
      refusal(dir / "out", three_tensors()),
      str("\"", dir / "out.partial",
          "\" exists: it is being written, or was left by a writer that was killed; remove it to "
          "begin again"));
  std::filesystem::create_directory(dir / "out");
  EXPECT_NE(refusal(dir / "out", three_tensors()), "");
  EXPECT_TRUE(std::filesystem::exists(dir / "out")) << "a refusal leaves what is there";
  EXPECT_EQ(refusal(dir / "absent/out", three_tensors()),
            str("cannot create ", dir / "absent/out", ": No such file or directory"));
}

TEST(CheckpointWriter, an_empty_directory_of_another_user_is_known_before_anything_is_written) {
  const TestDir dir;
  std::filesystem::create_directory(dir / "out");
  ASSERT_EQ(::chmod((dir / "out").c_str(), 0555), 0);
  ASSERT_EQ(::chmod(dir.path().c_str(), 0777), 0);
  // Root may write everywhere.
  EXPECT_EXIT(
      {
        if (::getuid() == 0 && ::setuid(65534) != 0) std::exit(0);
        const auto writer = CheckpointWriter::create(dir / "out", three_tensors());
        const bool is_told =
            !writer.ok() &&
            writer.error().message == str("cannot write to ", dir / "out", ": Permission denied");
        std::exit(is_told ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(CheckpointWriter, a_disk_that_is_too_small_is_known_before_anything_is_written) {
  const TestDir dir;
  const std::vector<TensorSpec> large = {{"x", StoredType::kU8, {std::int64_t{1} << 50}}};
  // The leftover of a killed writer takes room: it is named first.
  std::filesystem::create_directory(dir / "out.partial");
  const auto beside = CheckpointWriter::create(dir / "out", large);
  EXPECT_NE(beside.error().message.find("exists: it is being written"), std::string::npos);
  std::filesystem::remove(dir / "out.partial");
  std::filesystem::create_directory(dir / "out");
  const auto writer = CheckpointWriter::create(dir / "out", large);
  ASSERT_FALSE(writer.ok());
  const std::string beginning = str(dir / "out", " needs 1 PiB, but only ");
  EXPECT_TRUE(writer.error().message.starts_with(beginning)) << writer.error().message;
  EXPECT_TRUE(std::filesystem::remove(dir / "out"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(CheckpointWriterDeath, writes_outside_of_a_tensor_abort) {
  const TestDir dir;
  CheckpointWriter writer = CheckpointWriter::create(dir / "out", three_tensors()).value();
  EXPECT_DEATH((void)writer.write(2, 1, bytes("!")), "outside of a tensor");
}

}  // namespace
}  // namespace glint
