#include "base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace glint {
namespace {

struct Values {
  std::int32_t number = 0;
  std::vector<float> floats;
  std::string text;
  std::vector<std::string> texts;

  bool operator==(const Values&) const = default;
};

bool read(std::string_view bytes, Values& to) {
  ByteReader reader(bytes);
  reader(to.number, to.floats, to.text);
  reader.each(to.texts, reader);
  return reader.is_whole();
}

TEST(Bytes, come_back_whole_or_are_known_to_be_cut) {
  const Values values = {7, {1, -0.0f}, "seven", {"", "a", "bc"}};
  ByteWriter writer;
  writer(values.number, values.floats, values.text);
  writer.each(values.texts, writer);
  const std::string bytes = writer.take();
  Values back;
  EXPECT_TRUE(read(bytes, back));
  EXPECT_EQ(back, values);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Values cut;
    EXPECT_FALSE(read(std::string_view(bytes).substr(0, size), cut)) << size;
  }
  EXPECT_FALSE(read(bytes + "x", back));
}

TEST(Bytes, of_a_length_without_values_take_no_memory) {
  ByteWriter writer;
  writer(std::numeric_limits<std::uint64_t>::max() / 4 + 2, std::uint64_t{1});
  const std::string bytes = writer.take();
  std::vector<std::uint32_t> numbers = {1};
  std::int32_t after = 5;
  ByteReader reader(bytes);
  reader(numbers, after);
  EXPECT_TRUE(numbers.empty());
  EXPECT_EQ(after, 5);
  EXPECT_FALSE(reader.has_more());
  EXPECT_FALSE(reader.is_whole());
  std::vector<std::string> texts;
  ByteReader of_texts(bytes);
  of_texts.each(texts, of_texts);
  EXPECT_LE(texts.size(), 2u);
}

}  // namespace
}  // namespace glint
