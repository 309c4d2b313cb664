#include "quant/quantize_in_memory.h"

#include <gtest/gtest.h>

#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "checkpoint/memory_source.h"
#include "quant/convert.h"

namespace glint {
namespace {

// A copy, in memory that is nowhere else: given back to the system, it would be zeros.
struct Copied {
  explicit Copied(const TensorSource& source) {
    for (const StoredTensor& tensor : source.tensors()) size += tensor.bytes.size();
    memory.resize(size);
    std::size_t at = 0;
    for (StoredTensor tensor : source.tensors()) {
      std::copy(tensor.bytes.begin(), tensor.bytes.end(), &memory[at]);
      tensor.bytes = std::span(memory).subspan(at, tensor.bytes.size());
      tensor.file = 0;
      at += tensor.bytes.size();
      tensors.push_back(tensor);
    }
  }
  std::size_t size = 0;
  std::vector<std::byte> memory;
  std::vector<StoredTensor> tensors;
};

TEST(QuantizeInMemory, bytes_are_those_of_a_conversion_and_the_source_stays) {
  const std::string source = GLINT_SOURCE_DIR "/models/glm5-tiny";
  const TestDir dir;
  const Recipe recipe = {
      .format = TargetFormat::kFp8, .scope = Scope::kAllLinear, .mtp = MtpChoice::kConvert};
  ThreadPool pool(2);
  Conversion conversion =
      Conversion::prepare({.source = source, .out = dir / "out", .recipe = recipe}).value();
  ASSERT_TRUE(conversion.run(pool, [](std::int64_t) {}).ok());
  const Checkpoint expected = Checkpoint::open(dir / "out").value();

  const Checkpoint original = Checkpoint::open(source).value();
  Copied copied(original.source());
  const std::vector<std::byte> before = copied.memory;
  const ModelConfig config = read_config(source + "/config.json").value();
  for (int round = 0; round < 2; ++round) {
    const Checkpoint made =
        quantize_in_memory(Checkpoint(std::make_unique<MemorySource>("here", copied.tensors)),
                           config, recipe, pool)
            .value();
    ASSERT_EQ(made.source().tensors().size(), expected.source().tensors().size());
    for (const StoredTensor& tensor : expected.source().tensors()) {
      const StoredTensor* const found = made.source().find(tensor.name);
      ASSERT_NE(found, nullptr) << tensor.name;
      EXPECT_EQ(found->describe(), tensor.describe()) << tensor.name;
      EXPECT_TRUE(std::ranges::equal(found->bytes, tensor.bytes)) << tensor.name;
    }
    EXPECT_TRUE(copied.memory == before);
  }
}

}  // namespace
}  // namespace glint
