#include "bench/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/str.h"
#include "base/test_dir.h"

namespace glint {
namespace {

TEST(Workload, prompts_are_a_function_of_seed_and_index) {
  const PromptOptions options = {.input_len = 50, .num_ids = 90, .seed = 3};
  EXPECT_EQ(random_prompt(options, 7), random_prompt(options, 7));
  EXPECT_NE(random_prompt(options, 7), random_prompt(options, 8));
  EXPECT_EQ(random_prompt(options, 7).size(), 50u);
  for (const std::int64_t id : random_prompt(options, 7)) EXPECT_TRUE(id >= 0 && id < 90);
}

// The two tools mean opposite things by 0 and by 1.
TEST(Workload, lengths_lie_in_the_range_that_each_dialect_means) {
  const auto range = [](RangeDialect dialect, double ratio) {
    const PromptOptions options = {.input_len = 100,
                                   .output_len = 10,
                                   .input_ratio = ratio,
                                   .output_ratio = ratio,
                                   .dialect = dialect};
    int least = 1 << 20, most = 0, outputs = 0;
    for (int i = 0; i < 2000; ++i) {
      const auto length = static_cast<int>(random_prompt(options, i).size());
      least = std::min(least, length);
      most = std::max(most, length);
      outputs = std::max(outputs, random_output_len(options, i));
    }
    return std::vector<int>{least, most, outputs};
  };
  EXPECT_EQ(range(RangeDialect::kVllm, 0), (std::vector<int>{100, 100, 10}));
  EXPECT_EQ(range(RangeDialect::kVllm, 0.5), (std::vector<int>{50, 150, 15}));
  EXPECT_EQ(range(RangeDialect::kSglang, 1), (std::vector<int>{100, 100, 10}));
  EXPECT_EQ(range(RangeDialect::kSglang, 0.5), (std::vector<int>{50, 100, 10}));
  EXPECT_EQ(range(RangeDialect::kSglang, 0)[0], 1);
}

TEST(Workload, prefixes_are_shared_in_turn) {
  const PromptOptions options = {.input_len = 5, .prefix_len = 20, .num_prefixes = 3};
  std::set<std::vector<std::int64_t>> prefixes, all;
  for (int i = 0; i < 30; ++i) {
    const auto ids = random_prompt(options, i);
    ASSERT_EQ(ids.size(), 25u);
    prefixes.insert({ids.begin(), ids.begin() + 20});
    all.insert(ids);
  }
  EXPECT_EQ(prefixes.size(), 3u);
  EXPECT_EQ(all.size(), 30u);
}

TEST(Workload, text_has_a_word_for_each_token) {
  const PromptOptions options = {.input_len = 50, .prefix_len = 20, .seed = 3};
  const std::string text = random_text(options, 7), other = random_text(options, 8);
  EXPECT_EQ(split(text, ' ').size(), 70u);
  EXPECT_EQ(text, random_text(options, 7));
  EXPECT_NE(text, other);
  EXPECT_EQ(text.substr(0, 40), other.substr(0, 40));
}

struct ShareGpt : testing::Test {
  Result<std::vector<Conversation>> read(const std::string& text, int output_len = 0,
                                         int max_turns = 1) {
    return read_sharegpt(folder.write("f.json", text), output_len, max_turns, 1);
  }
  const TestDir folder;
};

TEST_F(ShareGpt, questions_and_the_lengths_of_their_answers) {
  const std::string file = R"([
    {"id": "a", "conversations": [{"from": "human", "value": "q1"}, {"from": "gpt", "value": "12345678"},
                                  {"from": "human", "value": "q2"}, {"from": "gpt", "value": "x"}]},
    {"id": "b", "conversations": [{"from": "human", "value": "alone"}]},
    {"id": "c"}])";
  const auto one = read(file).value();
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(one[0].size(), 1u);
  EXPECT_EQ(one[0][0].text, "q1");
  EXPECT_EQ(one[0][0].output_len, 2);
  const auto two = read(file, 7, 9).value();
  ASSERT_EQ(two[0].size(), 2u);
  EXPECT_EQ(two[0][1].text, "q2");
  EXPECT_EQ(two[0][1].output_len, 7);
}

TEST_F(ShareGpt, may_be_lines_of_messages) {
  const auto read = this->read(R"({"messages": [{"role": "system", "content": "s"},
    {"role": "user", "content": "q"}, {"role": "assistant", "content": "12345678"}]})")
                        .value();
  EXPECT_EQ(read[0][0].text, "q");
  EXPECT_EQ(read[0][0].output_len, 2);
  const char* const line =
      R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})";
  EXPECT_EQ(this->read(str(line, "\n\n", line, "\n")).value().size(), 2u);
  EXPECT_NE(this->read(str("\n", line, "\n{")).error().message.find("f.json, line 3: "),
            std::string::npos);
}

TEST_F(ShareGpt, what_is_none_is_refused) {
  EXPECT_NE(read("{}").error().message.find("no conversation with"), std::string::npos);
  EXPECT_NE(read("[{}]").error().message.find("no conversation with"), std::string::npos);
  EXPECT_FALSE(read("[").ok());
}

}  // namespace
}  // namespace glint
