#include "rl/prompt_data.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "base/test_dir.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {
namespace {

class PromptData : public testing::Test {
 protected:
  Result<std::vector<TrainPrompt>> read(const std::string& contents, const std::string& slice = "",
                                        bool template_too = false) {
    return read_train_prompts({.path = dir_.write("rows.jsonl", contents) + slice,
                               .dir = str(GLINT_SOURCE_DIR, "/models/glm5-tiny"),
                               .apply_chat_template = template_too,
                               .max_prompt_tokens = 100,
                               .is_remote = is_remote_});
  }
  void expect_refused(const std::string& contents, const std::string& words) {
    const auto read_in = read(contents);
    ASSERT_FALSE(read_in.ok()) << contents;
    EXPECT_NE(read_in.error().message.find(words), std::string::npos) << read_in.error().message;
  }

  const TestDir dir_;
  bool is_remote_ = false;
};

TEST_F(PromptData, TextsMessagesAndLabels) {
  const auto rows = read(
      "{\"prompt\": \"1 + 1 =\", \"label\": 2, \"metadata\": {\"rm_type\": null}}\n\n"
      "{\"prompt\": [{\"role\": \"user\", \"content\": \"1 + 1 =\"}], \"label\": \"2\", "
      "\"metadata\": {\"rm_type\": \"math\"}}\n");
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows.value().size(), 2u);
  const TrainPrompt &text = rows.value()[0], &chat = rows.value()[1];
  EXPECT_EQ(text.label, "2");
  EXPECT_EQ(text.given_label, Json(2));
  EXPECT_EQ(text.rm_type, "");
  EXPECT_EQ(text.line, 1);
  EXPECT_EQ(chat.label, "2");
  EXPECT_EQ(chat.given_label, Json("2"));
  EXPECT_EQ(chat.rm_type, "math");
  EXPECT_EQ(chat.line, 3);
  EXPECT_GT(chat.ids.size(), text.ids.size());
  // As tables write them.
  const auto table = read(
      "{\"prompt\": \"x\", \"label\": 2, \"metadata\": null, "
      "\"tools\": \"[{\\\"function\\\": {\\\"name\\\": \\\"add\\\"}}]\"}\n");
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table.value()[0].tools[0].name, "add");
  // With the template a text is what a user says.
  const auto templated = read("{\"prompt\": \"1 + 1 =\", \"label\": 2}\n", "", true);
  EXPECT_EQ(templated.value()[0].ids, chat.ids);
}

TEST_F(PromptData, TemplatesGetWhatARowSays) {
  const std::string row = "{\"prompt\": [{\"role\": \"user\", \"content\": \"x\"}], \"label\": 1";
  const auto rows = read(str(row, "}\n", row, ", \"chat_template_kwargs\": null}\n", row,
                             ", \"chat_template_kwargs\": {\"enable_thinking\": false}}\n"));
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  const Tokenizer tokenizer = Tokenizer::open(str(GLINT_SOURCE_DIR, "/models/glm5-tiny")).value();
  const auto end_of = [&](std::size_t i) {
    return tokenizer.decode({{rows.value()[i].ids.back()}});
  };
  EXPECT_EQ(end_of(0), "<think>");
  EXPECT_EQ(end_of(1), "<think>");
  EXPECT_EQ(end_of(2), "</think>");
  for (const char* name : {"messages", "tools", "add_generation_prompt"}) {
    expect_refused(str(row, ", \"chat_template_kwargs\": {\"", name, "\": []}}\n"),
                   str("\"chat_template_kwargs\" has \"", name, "\""));
  }
  expect_refused(row + ", \"chat_template_kwargs\": 1}\n", "is an integer; expected an object");
}

TEST_F(PromptData, Slices) {
  std::string contents;
  for (int i = 0; i < 10; ++i) contents += str("{\"prompt\": \"x\", \"label\": ", i, "}\n");
  const auto labels = [&](const char* slice) {
    std::string all;
    const auto rows = read(contents, slice);
    for (const TrainPrompt& row : rows.value()) all += row.label;
    return all;
  };
  EXPECT_EQ(labels("@[2:4]"), "23");
  EXPECT_EQ(labels("@[:3]"), "012");
  EXPECT_EQ(labels("@[-2:]"), "89");
  EXPECT_EQ(labels("@[8:99]"), "89");
  EXPECT_FALSE(read(contents, "@[4:4]").ok());
  EXPECT_FALSE(read(contents, "@[a:b]").ok());
  EXPECT_FALSE(read(contents, "@[1]").ok());
}

TEST_F(PromptData, AnotherProgramGetsLabelsAsTheyAre) {
  const std::string contents =
      "{\"prompt\": \"x\"}\n{\"prompt\": \"x\", \"label\": null}\n"
      "{\"prompt\": \"x\", \"label\": {\"a\": [1]}}\n{\"prompt\": \"x\", \"label\": \"t\"}\n";
  EXPECT_FALSE(read(contents).ok());
  is_remote_ = true;
  const std::vector<TrainPrompt> rows = read(contents).value();
  EXPECT_EQ(rows[0].given_label, Json());
  EXPECT_EQ(rows[1].given_label, Json());
  EXPECT_EQ(dump_json(rows[2].given_label), R"({"a":[1]})");
  EXPECT_EQ(rows[3].given_label, Json("t"));
  EXPECT_EQ(rows[3].label, "t");
}

TEST_F(PromptData, WrongRowsAreNamed) {
  expect_refused("{\"prompt\": \"x\", \"label\": 1}\n{\n", "line 2");
  expect_refused("{\"prompt\": \"x\", \"label\": 1, \"tools\": \"add\"}\n", "\"tools\" are a text");
  expect_refused("[1]\n", "is a list; expected an object");
  expect_refused("{\"label\": 1}\n", "has no \"prompt\"");
  expect_refused("{\"prompt\": \"x\"}\n", "has no \"label\"");
  expect_refused("{\"prompt\": 7, \"label\": 1}\n", "\"prompt\" is an integer");
  expect_refused("{\"prompt\": [], \"label\": 1}\n", "\"prompt\" is a list");
  expect_refused("{\"prompt\": \"\", \"label\": 1}\n", "no token");
  expect_refused("{\"prompt\": \"x\", \"label\": [1]}\n", "\"label\" is a list");
  expect_refused("{\"prompt\": \"x\", \"label\": 1, \"metadata\": {\"rm_type\": \"no\"}}\n",
                 "there is no reward \"no\"");
  expect_refused("\n\n", "holds no prompt");
  std::string words;
  for (int i = 0; i < 200; ++i) words += "word ";
  expect_refused(str("{\"prompt\": \"", words, "\", \"label\": 1}\n"), "at most 100");
}

}  // namespace
}  // namespace glint
