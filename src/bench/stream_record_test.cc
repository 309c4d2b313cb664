#include "bench/stream_record.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

using std::chrono::milliseconds;

std::string chunk(const std::string& ids, const std::string& reason = "null") {
  return R"(data: {"choices":[{"text":"x","token_ids":[)" + ids + R"(],"finish_reason":)" + reason +
         "}]}\n\n";
}
std::string usage(int tokens) {
  return R"(data: {"choices":[],"usage":{"completion_tokens":)" + std::to_string(tokens) + "}}\n\n";
}
constexpr char kDone[] = "data: [DONE]\n\n";

StreamRecord read(const std::vector<std::string>& pieces, std::int64_t want_tokens) {
  StreamRecord record;
  StreamReader reader(record);
  for (const std::string& piece : pieces) {
    if (!reader.feed(piece, BenchClock::now())) break;
  }
  reader.finish(want_tokens);
  return record;
}

TEST(StreamRecord, a_whole_answer_has_tokens_in_order_and_the_times_of_its_chunks) {
  StreamRecord record;
  StreamReader reader(record);
  const BenchClock::time_point begin{};
  record.start = begin;
  // A chunk of two tokens, cut between two reads: it came when its end came.
  EXPECT_TRUE(reader.feed(chunk("5").substr(0, 20), begin + milliseconds(3)));
  EXPECT_TRUE(reader.feed(chunk("5").substr(20), begin + milliseconds(10)));
  EXPECT_TRUE(reader.feed(chunk("6,7"), begin + milliseconds(30)));
  EXPECT_TRUE(reader.feed(chunk("8", "\"length\"") + usage(4) + kDone, begin + milliseconds(70)));
  reader.finish(4);
  EXPECT_EQ(record.failure, "");
  EXPECT_EQ(record.tokens, (std::vector<std::int64_t>{5, 6, 7, 8}));
  ASSERT_EQ(record.chunks.size(), 3u);
  EXPECT_DOUBLE_EQ(record.ttft_ms(), 10);
  EXPECT_DOUBLE_EQ(record.tpot_ms(), 20);  // (70 - 10) / 3
}

TEST(StreamRecord, answers_without_token_ids_are_counted_by_their_usage) {
  const std::string plain = "data: {\"choices\":[{\"text\":\"x\",\"finish_reason\":\"stop\"}]}\n\n";
  EXPECT_EQ(read({plain, usage(3), kDone}, 3).failure, "");
  const std::string with_null = "data: {\"error\":null," + plain.substr(7);
  EXPECT_EQ(read({with_null, usage(3), kDone}, 3).failure, "");
  EXPECT_EQ(read({plain, usage(2), kDone}, 3).failure, "the server counts 2 tokens; 3 were asked");
}

TEST(StreamRecord, what_a_whole_answer_must_have_and_has_not_is_a_failure) {
  const std::string last = chunk("1", "\"length\"");
  EXPECT_EQ(read({last, usage(1)}, 1).failure, "the stream ended without [DONE]");
  EXPECT_EQ(read({chunk("1"), usage(1), kDone}, 1).failure, "no chunk had a finish_reason");
  EXPECT_EQ(read({last, kDone}, 1).failure.substr(0, 44),
            "the stream has no usage.completion_tokens, w");
  EXPECT_EQ(read({chunk("1"), last, usage(1), kDone}, 1).failure, "2 token ids came; 1 were asked");
  EXPECT_EQ(read({last, chunk("2"), usage(2), kDone}, 2).failure,
            "a chunk came after the finish_reason");
  EXPECT_EQ(read({last, usage(1), kDone, last}, 1).failure, "an event came after [DONE]");
  EXPECT_EQ(read({"data: {\"error\":{\"message\":\"no\"}}\n\n"}, 1).failure,
            "the server says: {\"message\":\"no\"}");
  EXPECT_EQ(read({"data: 7\n\n"}, 1).failure, "a chunk has no choices");
  EXPECT_EQ(read({"data: {]\n\n"}, 1).failure.substr(0, 19), "a chunk is no JSON:");
  EXPECT_EQ(read({chunk("\"a\"")}, 1).failure, "token_ids holds what is no integer");
}

}  // namespace
}  // namespace glint
