#include "text/tokenizer.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(Tokenizer, glm5_tiny_round_trip) {
  const Tokenizer tokenizer = Tokenizer::open(GLINT_SOURCE_DIR "/models/glm5-tiny").value();
  const auto ids = tokenizer.encode("Hello, world! [gMASK]<sop><|user|>2+2?").value();
  EXPECT_EQ(tokenizer.decode(ids), "Hello, world! [gMASK]<sop><|user|>2+2?");
}

}  // namespace
}  // namespace glint
