#include "text/template/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/test_dir.h"

namespace glint {
namespace {

const std::string kRoot = GLINT_SOURCE_DIR;

// A line as `glint template --jsonl` reads it.
std::string render(const ChatTemplate& chat, std::string_view request) {
  const Json line = parse_json(request).value();
  const Json* tools = line.find("tools");
  const Json* kwargs = line.find("kwargs");
  const Result<std::string> text =
      chat.render(*line.find("messages"), tools ? *tools : Json(), kwargs ? *kwargs : Json());
  return text.ok() ? text.value() : "error: " + text.error().message;
}

ChatTemplate template_file(const std::string& name) {
  return ChatTemplate::parse(read_file(kRoot + "/tests/templates/" + name).value()).value();
}

const char* const kToolsText =
    "<|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
    "{\"type\": \"function\", \"function\": {\"name\": \"now\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {}}}}\n"
    "</tools>\n\nFor each function call, output the function name and arguments within the "
    "following XML format:\n"
    "<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>"
    "<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>";

TEST(ChatTemplate, a_thought_is_read_under_each_of_its_names) {
  const ChatTemplate chat = ChatTemplate::open(kRoot + "/models/glm5-tiny").value();
  const auto of = [&](const std::string& fields) {
    return render(chat, R"({"messages": [{"role": "assistant", "content": "2", )" + fields + "}]}");
  };
  const std::string wanted = "[gMASK]<sop><|assistant|><think>easy</think>2";
  EXPECT_EQ(of(R"("reasoning_content": "easy", "thinking": "other")"), wanted);
  EXPECT_EQ(of(R"("reasoning_content": null, "thinking": "easy", "reasoning": "other")"), wanted);
  EXPECT_EQ(of(R"("thinking": null, "reasoning": "easy")"), wanted);
  EXPECT_EQ(of(R"("reasoning_content": "", "reasoning": "other")"),
            "[gMASK]<sop><|assistant|></think>2");
  EXPECT_EQ(render(ChatTemplate::parse("{{ messages[0] | tojson }}").value(),
                   R"({"messages": [{"role": "assistant", "reasoning": "easy"}]})"),
            R"({"thinking": "easy", "role": "assistant", "reasoning": "easy", )"
            R"("reasoning_content": "easy"})");
}

TEST(Glm5Template, conversations_without_tools) {
  const ChatTemplate chat = ChatTemplate::open(kRoot + "/models/glm5-tiny").value();
  EXPECT_EQ(
      render(
          chat,
          R"({"messages": [{"role": "user", "content": "Hi"}], "kwargs": {"add_generation_prompt": true}})"),
      "[gMASK]<sop><|user|>Hi<|assistant|><think>");
  EXPECT_EQ(render(chat, R"({"messages": [{"role": "user", "content": "Say OK."}],
                             "kwargs": {"add_generation_prompt": true, "enable_thinking": false}})"),
            "[gMASK]<sop><|user|>Say OK.<|assistant|></think>");
  const std::string turns =
      R"("messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"},
      {"role": "assistant", "content": "2", "reasoning_content": "easy"}, {"role": "user", "content": "2+2?"}])";
  EXPECT_EQ(render(chat, "{" + turns + R"(, "kwargs": {"add_generation_prompt": true}})"),
            "[gMASK]<sop><|system|>Be "
            "brief.<|user|>1+1?<|assistant|></think>2<|user|>2+2?<|assistant|><think>");
  EXPECT_EQ(
      render(chat, "{" + turns +
                       R"(, "kwargs": {"add_generation_prompt": true, "clear_thinking": false}})"),
      "[gMASK]<sop><|system|>Be "
      "brief.<|user|>1+1?<|assistant|><think>easy</think>2<|user|>2+2?<|assistant|><think>");
  EXPECT_EQ(render(chat, R"({"messages": [{"role": "user", "content": "Q"},
                             {"role": "assistant", "content": "<think>\nR\n</think>\n\nX"}]})"),
            "[gMASK]<sop><|user|>Q<|assistant|><think>R</think>X");
  EXPECT_EQ(render(chat, R"({"messages": [{"role": "user", "content": "Q"},
                             {"role": "assistant", "content": "", "reasoning_content": "  "}]})"),
            "[gMASK]<sop><|user|>Q<|assistant|><think></think>");
}

TEST(Glm5Template, tools_calls_and_results) {
  const ChatTemplate chat = ChatTemplate::open(kRoot + "/models/glm5-tiny").value();
  EXPECT_EQ(
      render(
          chat,
          R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Weather?"},
      {"role": "assistant", "reasoning_content": " need tool\n", "content": "Let me see.\n", "tool_calls": [
        {"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}},
        {"type": "function", "function": {"name": "now", "arguments": {}}}]},
      {"role": "tool", "content": "sunny"}, {"role": "tool", "content": "12:00"}],
      "tools": [{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}],
      "kwargs": {"add_generation_prompt": true}})"),
      std::string("[gMASK]<sop>") + kToolsText +
          "<|system|>S<|user|>Weather?<|assistant|><think>need tool</think>Let me "
          "see.<tool_call>get_weather"
          "<arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days</arg_key><arg_value>2</"
          "arg_value></tool_call>"
          "<tool_call>now</tool_call><|observation|><tool_response>sunny</tool_response>"
          "<tool_response>12:00</tool_response><|assistant|><think>");
  EXPECT_EQ(render(chat, R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [
      {"function": {"name": "now", "arguments": {"a": [1, "é"], "b": true, "c": null, "d": 1e5}}}]}]})"),
            "[gMASK]<sop><|assistant|></think><tool_call>now<arg_key>a</arg_key><arg_value>[1, "
            "\"é\"]</arg_value>"
            "<arg_key>b</arg_key><arg_value>true</arg_value><arg_key>c</arg_key><arg_value>null</"
            "arg_value>"
            "<arg_key>d</arg_key><arg_value>100000.0</arg_value></tool_call>");
}

TEST(Glm5Template, other_layouts_of_the_family) {
  const std::string request = R"({"messages": [{"role": "user", "content": "weather?"},
      {"role": "assistant", "content": "", "reasoning_content": "need weather", "tool_calls": [
        {"function": {"name": "get_weather", "arguments": {"city": "SF"}}}]},
      {"role": "tool", "content": "sunny"}], "kwargs": {"add_generation_prompt": true}})";
  EXPECT_EQ(render(template_file("glm-5.1.jinja"), request),
            "[gMASK]<sop><|user|>weather?<|assistant|><think>need "
            "weather</think><tool_call>get_weather<arg_key>city</arg_key>"
            "<arg_value>SF</arg_value></tool_call><|observation|><tool_response>sunny</"
            "tool_response><|assistant|><think>");
  EXPECT_EQ(render(template_file("glm-5.2.jinja"), request),
            "[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>weather?<|assistant|><think>need "
            "weather</think><tool_call>"
            "get_weather<arg_key>city</arg_key><arg_value>SF</arg_value></"
            "tool_call><|observation|><tool_response>sunny"
            "</tool_response><|assistant|><think>");
  EXPECT_EQ(render(template_file("glm-4.5.jinja"), request),
            "[gMASK]<sop><|user|>\nweather?<|assistant|>\n<think>need "
            "weather</think>\n<tool_call>get_weather\n"
            "<arg_key>city</arg_key>\n<arg_value>SF</arg_value>\n</"
            "tool_call><|observation|>\n<tool_response>\nsunny\n"
            "</tool_response><|assistant|>");
  const std::string off =
      R"({"messages": [{"role": "user", "content": "One?"}, {"role": "assistant", "content": "First."},
      {"role": "user", "content": "Two?"}], "kwargs": {"add_generation_prompt": true, "enable_thinking": false}})";
  EXPECT_EQ(render(template_file("glm-5.1.jinja"), off),
            "[gMASK]<sop><|user|>One?<|assistant|></think>First.<|user|>Two?<|assistant|></think>");
  EXPECT_EQ(render(template_file("glm-5.2.jinja"), off),
            "[gMASK]<sop><|user|>One?<|assistant|><think></"
            "think>First.<|user|>Two?<|assistant|><think></think>");
}

class ChatTemplateDir : public testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) { dir_.write(name, text); }

  std::string rendered(std::string_view request = R"({"messages": []})") {
    const Result<ChatTemplate> chat = ChatTemplate::open(dir_.path());
    return chat.ok() ? render(chat.value(), request) : "cannot open: " + chat.error().message;
  }

  const TestDir dir_;
};

TEST_F(ChatTemplateDir, special_tokens_come_from_the_tokenizer) {
  write(
      "tokenizer_config.json",
      R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": "{{ bos_token }}{{ eos_token }}"})");
  EXPECT_EQ(rendered(), "<s></s>");
  EXPECT_EQ(rendered(R"({"messages": [], "kwargs": {"bos_token": "B"}})"), "B</s>");
}

TEST_F(ChatTemplateDir, the_file_goes_before_the_config) {
  write("tokenizer_config.json", R"({"chat_template": "config"})");
  write("chat_template.jinja", "file\n");
  EXPECT_EQ(rendered(), "file");
}

TEST_F(ChatTemplateDir, a_file_that_is_there_and_cannot_be_read_is_no_missing_one) {
  write("config.json", R"({"model_type": "glm_moe_dsa"})");
  EXPECT_EQ(rendered().find("cannot open"), std::string::npos);  // the family's own template
  const std::string path = dir_ / "chat_template.jinja";
  write("chat_template.jinja", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_EQ(rendered(), "cannot open: " + path +
                            " is a git-lfs pointer, not the file: run \"git lfs pull\" beside it");
  std::filesystem::remove(path);
  std::filesystem::create_symlink("nowhere", path);
  EXPECT_EQ(rendered(),
            "cannot open: cannot open " + path + ": it is a link to nowhere, which is not there");
  std::filesystem::remove(path);
  write("tokenizer_config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_NE(rendered().find("tokenizer_config.json is a git-lfs pointer"), std::string::npos);
}

TEST_F(ChatTemplateDir, a_file_or_a_text_takes_its_place_with_the_tokens_of_the_checkpoint) {
  write("tokenizer_config.json", R"({"bos_token": "<s>", "chat_template": "mine"})");
  write("{own}.jinja", "file {{ bos_token }}");
  const auto given = [&](const std::string& text) {
    Result<ChatTemplate> chat = ChatTemplate::from_file_or_text(text);
    if (!chat.ok()) return "error: " + chat.error().message;
    EXPECT_TRUE(chat.value().take_special_tokens(dir_.path()).ok());
    return render(chat.value(), R"({"messages": []})");
  };
  EXPECT_EQ(given(dir_ / "{own}.jinja"), "file <s>");
  EXPECT_EQ(given("text {{ bos_token }}"), "text <s>");
  EXPECT_EQ(given("two\nlines"), "two\nlines");
  EXPECT_EQ(given(std::string(9999, 'x') + "{{ bos_token }}"), std::string(9999, 'x') + "<s>");
  EXPECT_EQ(given("{{ 1 + }}"), "error: line 1, column 8: unexpected 'end of print statement'");
  EXPECT_EQ(given("nowhere.jinja"),
            "error: there is no file \"nowhere.jinja\"; give one, or the text of a template, which "
            "has braces");
}

TEST_F(ChatTemplateDir, named_templates) {
  write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]})");
  EXPECT_EQ(rendered(), "D");
  EXPECT_EQ(rendered(R"({"messages": [], "tools": [{}]})"), "T");
  EXPECT_EQ(rendered(R"({"messages": [], "tools": []})"), "T");
  EXPECT_EQ(rendered(R"({"messages": [], "tools": null})"), "D");
  // As newer transformers save them; the file comes before the list.
  write("chat_template.jinja", "d");
  EXPECT_EQ(rendered(R"({"messages": [], "tools": [{}]})"), "d");
  std::filesystem::create_directory(dir_ / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "t");
  EXPECT_EQ(rendered(), "d");
  EXPECT_EQ(rendered(R"({"messages": [], "tools": [{}]})"), "t");
  std::filesystem::remove(dir_ / "chat_template.jinja");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "D"}]})");
  EXPECT_NE(rendered().find("no template that is named \"default\""), std::string::npos);
}

TEST_F(ChatTemplateDir, a_glm_without_a_template_gets_that_of_glm5) {
  EXPECT_NE(rendered().find("has no chat template"), std::string::npos);
  write("config.json", R"({"model_type": "glm_moe_dsa"})");
  EXPECT_EQ(rendered(), "[gMASK]<sop>");
}

TEST_F(ChatTemplateDir, broken_files_are_named) {
  write("chat_template.jinja", "{{ 1 + }}");
  EXPECT_EQ(rendered(), "cannot open: " + dir_ / "chat_template.jinja" +
                            ": line 1, column 8: unexpected 'end of print statement'");
  write("tokenizer_config.json", "{");
  EXPECT_NE(rendered().find(dir_ / "tokenizer_config.json" + ": line 1"), std::string::npos);
}

}  // namespace
}  // namespace glint
