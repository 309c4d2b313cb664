#include "cli/prompt_file.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "base/test_dir.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {
namespace {

const std::string kModel = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");

Result<Prompts> read(std::string_view contents, std::int64_t max_tokens = 4096) {
  const TestDir dir;
  return read_prompts({.path = dir.write("prompts", contents),
                       .dir = kModel,
                       .max_tokens = max_tokens,
                       .vocab = 3712});
}

std::string decode(const std::vector<TokenId>& ids) {
  return Tokenizer::open(kModel).value().decode(ids);
}

void expect_error(std::string_view contents, std::initializer_list<const char*> words) {
  const auto prompts = read(contents);
  ASSERT_FALSE(prompts.ok()) << contents;
  for (const char* word : words)
    EXPECT_NE(prompts.error().message.find(word), std::string::npos) << prompts.error().message;
}

TEST(PromptFile, text_is_a_prompt_a_line) {
  const Prompts prompts = read("Once upon a time\r\n\n  \n{not json\n").value();
  ASSERT_EQ(prompts.ids.size(), 2u);
  EXPECT_EQ(decode(prompts.ids[0]), "Once upon a time");
  EXPECT_EQ(decode(prompts.ids[1]), "{not json");
  EXPECT_EQ(prompts.lines, (std::vector<int>{1, 4}));
}

// A list of objects, say, is no text to run.
TEST(PromptFile, a_file_that_is_called_jsonl_is_not_text) {
  const TestDir dir;
  for (const char* name : {"prompts.jsonl", "prompts.json"}) {
    const auto prompts = read_prompts({.path = dir.write(name, "[{\"text\": \"a\"}]\n"),
                                       .dir = kModel,
                                       .max_tokens = 4096,
                                       .vocab = 3712});
    ASSERT_FALSE(prompts.ok());
    EXPECT_NE(prompts.error().message.find("line 1: expected an object"), std::string::npos)
        << prompts.error().message;
  }
}

TEST(PromptFile, jsonl_holds_texts_conversations_and_ids) {
  const Prompts prompts = read(
                              "{\"text\": \"a line\\nand another\"}\n"
                              "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}\n"
                              "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"},"
                              " {\"role\": \"assistant\", \"content\": \"Hi there.\"}]}\n"
                              "{\"ids\": [5, 6, 3711]}\n")
                              .value();
  ASSERT_EQ(prompts.ids.size(), 4u);
  EXPECT_EQ(decode(prompts.ids[0]), "a line\nand another");
  const std::string asked = decode(prompts.ids[1]), answered = decode(prompts.ids[2]);
  EXPECT_NE(asked.find("<|user|>"), std::string::npos) << asked;
  EXPECT_NE(asked.find("<|assistant|>"), std::string::npos) << asked;
  EXPECT_TRUE(answered.ends_with("Hi there.")) << answered;
  EXPECT_EQ(prompts.ids[3], (std::vector<TokenId>{5, 6, 3711}));
}

// As the server reads them: what it takes, and what its templates get.
TEST(PromptFile, conversations_are_read_as_requests_are) {
  const Prompts prompts =
      read(
          "{\"messages\": [{\"role\": \"developer\", \"content\": \"S\"}, {\"role\": "
          "\"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, \"b\"]}, "
          "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", "
          "\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
          "\"{\\\"x\\\": 1}\"}}]}, {\"role\": \"tool\", \"content\": \"t\"}]}\n")
          .value();
  const std::string text = decode(prompts.ids[0]);
  EXPECT_NE(text.find("<|system|>S"), std::string::npos) << text;
  EXPECT_NE(text.find("<|user|>ab"), std::string::npos) << text;
  EXPECT_NE(text.find("<tool_call>f<arg_key>x</arg_key><arg_value>1"), std::string::npos) << text;
}

TEST(PromptFile, long_prompts_are_cut_and_counted) {
  const Prompts prompts = read("{\"ids\": [1,2,3,4,5,6,7]}\n{\"ids\": [8]}", 3).value();
  EXPECT_EQ(prompts.ids, (TokenSequences{{1, 2, 3}, {4, 5, 6}, {7}, {8}}));
  EXPECT_EQ(prompts.lines, (std::vector<int>{1, 1, 1, 2}));
  EXPECT_EQ(prompts.num_cut, 1);
}

TEST(PromptFile, a_wrong_line_is_named) {
  expect_error("", {"holds no prompt"});
  expect_error("{\"text\": \"a\"}\nplain", {"line 2"});
  expect_error("{\"text\": \"a\"}\n{\"prompt\": \"b\"}", {"line 2", "\"messages\""});
  expect_error("{\"text\": \"a\", \"ids\": [1]}", {"line 1", "one of"});
  expect_error("{\"text\": 5}", {"line 1", "an integer"});
  expect_error("{\"ids\": [1, 3712]}", {"line 1", "3712"});
  expect_error("{\"ids\": [-1]}", {"line 1", "-1"});
  expect_error("{\"ids\": \"1\"}", {"line 1", "a text"});
  expect_error("{\"messages\": {}}", {"line 1", "messages"});
  expect_error("{\"messages\": []}", {"line 1", "messages is empty"});
  expect_error("{\"messages\": [{\"role\": \"user\", \"content\": 3}]}",
               {"line 1", "messages[0].content is an integer"});
}

}  // namespace
}  // namespace glint
