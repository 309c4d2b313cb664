#include "server/dialects/response_writer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/str.h"
#include "server/dialects/sglang_generate.h"

namespace glint {
namespace {

const TokenNames& names() {
  static const TokenNames the_names(Tokenizer::open(GLINT_SOURCE_DIR "/models/glm5-tiny").value());
  return the_names;
}

Delta delta(Delta::Kind kind, std::string text, int tool = 0) {
  return {.kind = kind, .text = std::move(text), .tool = tool};
}

using Kind = Delta::Kind;

// An answer with thoughts, text and two calls, in one piece.
Piece long_piece() {
  Piece piece;
  piece.deltas = {delta(Kind::kReasoning, "hm"),       delta(Kind::kContent, "look\n\"here\""),
                  delta(Kind::kToolBegin, "f"),        delta(Kind::kToolArguments, "{\"a\""),
                  delta(Kind::kToolArguments, ": 1}"), delta(Kind::kToolEnd, ""),
                  delta(Kind::kToolBegin, "g", 1),     delta(Kind::kToolArguments, "{}", 1),
                  delta(Kind::kToolEnd, "", 1)};
  piece.finish = Finish{.called_tools = true};
  return piece;
}

Answer answer_of(const Piece& piece) {
  Answer answer = {.prompts = {{1, 2}}, .choices = {{}}};
  answer.choices[0].parsed.add(piece.deltas);
  if (piece.finish) answer.choices[0].finish = *piece.finish;
  answer.usage = {.prompt_tokens = 2, .cached_tokens = 1, .completion_tokens = 7};
  return answer;
}

const Guarded<std::string>& version() {
  static const Guarded<std::string> the_version;
  return the_version;
}

ResponseInfo info() { return {.id = "id", .created = 5, .model = "m", .weights = &version()}; }

// The JSON of the events in `bytes`.
std::vector<Json> events_of(const std::string& bytes) {
  std::vector<Json> events;
  for (const std::string_view line : split(bytes, '\n'))
    if (line.starts_with("data: {")) events.push_back(parse_json(line.substr(6)).value());
  return events;
}

TEST(ChatWriter, a_piece_of_several_kinds_becomes_chunks_in_order) {
  const ApiRequest request = {.api = Api::kChat, .form = {.return_token_ids = true}};
  Piece piece = long_piece();
  piece.tokens = {3, 4};
  std::string bytes;
  make_writer(request, info(), names())->piece(piece, answer_of(piece), bytes);
  const std::vector<Json> events = events_of(bytes);
  ASSERT_EQ(events.size(), 3u) << bytes;
  const auto choice = [&](int i) {
    return dump_json(events[static_cast<std::size_t>(i)].find("choices")->as_array()[0]);
  };
  EXPECT_EQ(choice(0),
            R"({"index":0,"delta":{"role":"assistant","reasoning_content":"hm","reasoning":"hm"},)"
            R"("logprobs":null,"finish_reason":null,"token_ids":[3,4]})");
  EXPECT_EQ(choice(1), R"({"index":0,"delta":{"content":"look\n\"here\""},"logprobs":null,)"
                       R"("finish_reason":null})");
  const std::string first = call_id(info(), 0, 0), second = call_id(info(), 0, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(choice(2),
            R"({"index":0,"delta":{"tool_calls":[{"index":0,"id":")" + first +
                R"(","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},)"
                R"({"index":1,"id":")" +
                second +
                R"(","type":"function","function":{"name":"g","arguments":"{}"}}]},)"
                R"("logprobs":null,"finish_reason":"tool_calls","stop_reason":null})");
}

TEST(ChatWriter, arguments_that_go_on_need_no_name) {
  const ApiRequest request = {.api = Api::kChat};
  const auto writer = make_writer(request, info(), names());
  Piece first = {.deltas = {delta(Kind::kToolBegin, "f")}};
  Piece second = {.deltas = {delta(Kind::kToolArguments, "{")}};
  std::string bytes;
  writer->piece(first, answer_of(first), bytes);
  bytes.clear();
  writer->piece(second, answer_of(first), bytes);
  EXPECT_NE(bytes.find(R"("delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]})"),
            std::string::npos)
      << bytes;
}

TEST(ChatWriter, thoughts_are_left_out_on_request) {
  const ApiRequest request = {.api = Api::kChat, .form = {.include_reasoning = false}};
  const auto writer = make_writer(request, info(), names());
  const Piece piece = {.deltas = {delta(Kind::kReasoning, "hm"), delta(Kind::kContent, "a")}};
  std::string bytes;
  writer->piece(piece, answer_of(piece), bytes);
  EXPECT_EQ(bytes.find("hm"), std::string::npos);
  EXPECT_EQ(dump_json(writer->whole(answer_of(piece))).find("hm"), std::string::npos);
}

TEST(ChatWriter, usage_comes_in_every_chunk_or_at_the_end) {
  const Piece piece = {.deltas = {delta(Kind::kContent, "a")}};
  const ApiRequest request = {.api = Api::kChat,
                              .form = {.include_usage = true, .continuous_usage = true}};
  std::string bytes;
  const auto writer = make_writer(request, info(), names());
  writer->piece(piece, answer_of(piece), bytes);
  writer->end(answer_of(piece), bytes);
  const std::vector<Json> events = events_of(bytes);
  ASSERT_EQ(events.size(), 2u);
  for (const Json& event : events)
    EXPECT_EQ(dump_json(*event.find("usage")->find("total_tokens")), "9");
  EXPECT_EQ(dump_json(*events[1].find("choices")), "[]");
  EXPECT_TRUE(bytes.ends_with("data: [DONE]\n\n"));
}

TEST(ResponseWriter, streams_end_with_timings) {
  const Piece piece = {.finish = Finish{}};
  for (const Api api : {Api::kResponses, Api::kMessages, Api::kGenerate}) {
    const ApiRequest request = {.api = api, .form = {.return_timings = true}};
    const auto writer = make_writer(request, info(), names());
    std::string bytes;
    writer->piece(piece, answer_of(piece), bytes);
    writer->end(answer_of(piece), bytes);
    EXPECT_NE(bytes.find(R"("timings":{)"), std::string::npos) << bytes;
  }
}

TEST(ResponseWriter, log_probabilities_name_tokens_by_their_ids_on_request) {
  Answer answer = {.prompts = {{1}}, .choices = {{}}};
  answer.choices[0].scores = {{.id = 43, .logprob = {.logprob = -1, .top = {{.id = 44}}}}};
  for (const Api api : {Api::kChat, Api::kCompletions}) {
    const ApiRequest request = {
        .api = api, .facts = {.top_logprobs = 1}, .form = {.tokens_as_ids = true}};
    const std::string text = dump_json(make_writer(request, info(), names())->whole(answer));
    for (const char* name : {"token_id:43", "token_id:44"}) {
      EXPECT_NE(text.find(name), std::string::npos) << text;
    }
  }
}

TEST(CompletionWriter, log_probabilities_have_offsets_into_the_text) {
  const ApiRequest request = {.api = Api::kCompletions, .echo = true, .facts = {.top_logprobs = 1}};
  Answer answer = {.prompts = {{40, 41}}, .prompt_texts = {"HI"}, .choices = {{}}};
  answer.choices[0].prompt_scores = {{.logprob = -1, .top = {{.id = 42, .logprob = -0.5f}}}};
  answer.choices[0].scores = {{.id = 43, .logprob = {.logprob = -INFINITY}}};
  answer.choices[0].parsed.content = "K";
  const Json out = make_writer(request, info(), names())->whole(answer);
  const Json& logprobs = *out.find("choices")->as_array()[0].find("logprobs");
  EXPECT_EQ(dump_json(*logprobs.find("token_logprobs")), "[null,-1.0,-9999.0]");
  const auto length = [](TokenId id) { return names().text(id).size(); };
  EXPECT_EQ(dump_json(*logprobs.find("text_offset")),
            str("[0,", length(40), ",", length(40) + length(41), "]"));
  // In characters: those of several tokens count once.
  const Tokenizer tokenizer = Tokenizer::open(GLINT_SOURCE_DIR "/models/glm5-tiny").value();
  const std::vector<TokenId> parts = tokenizer.encode("\xf0\x9f\xa6\x96").value();
  ASSERT_GT(parts.size(), 1u);
  answer.prompts = {parts};
  answer.choices[0].prompt_scores.resize(parts.size() - 1);
  const Json wide = make_writer(request, info(), names())->whole(answer);
  std::string offsets = "[0";
  for (std::size_t i = 0; i < parts.size(); ++i) offsets += ",1";
  EXPECT_EQ(dump_json(*wide.find("choices")->as_array()[0].find("logprobs")->find("text_offset")),
            offsets + "]");
  EXPECT_TRUE(logprobs.find("top_logprobs")->as_array()[0].is_null());
  EXPECT_EQ(logprobs.find("top_logprobs")->as_array()[1].as_object().size(), 2u);
}

TEST(MessagesWriter, says_why_it_stopped) {
  const ApiRequest request = {.api = Api::kMessages};
  const auto reason = [&](Finish finish, bool calls) {
    Answer answer = {.prompts = {{1}}, .choices = {{}}};
    answer.choices[0].finish = std::move(finish);
    if (calls) answer.choices[0].parsed.calls.push_back({"f", "{\"a\":1}"});
    return make_writer(request, info(), names())->whole(answer);
  };
  EXPECT_EQ(*reason({}, false).find("stop_reason"), Json("end_turn"));
  EXPECT_EQ(*reason({}, true).find("stop_reason"), Json("tool_use"));
  EXPECT_EQ(*reason({.reason = FinishReason::kLength}, true).find("stop_reason"),
            Json("max_tokens"));
  const Json stopped = reason({.stop_string = "END"}, false);
  EXPECT_EQ(*stopped.find("stop_reason"), Json("stop_sequence"));
  EXPECT_EQ(*stopped.find("stop_sequence"), Json("END"));
}

TEST(GenerateWriter, routed_experts_are_int32_of_all_layers_in_base64) {
  ApiRequest request = {.api = Api::kGenerate};
  request.facts.routed_experts = true;
  Answer answer = {.prompts = {{1}}, .choices = {{}}};
  answer.choices[0].routed_experts = {1, 2, 3, 4};
  ResponseInfo layers = info();
  layers.num_layers = 3;
  layers.moe_layers = {0, 2};
  layers.experts_per_token = 1;
  const Json out = make_writer(request, layers, names())->whole(answer);
  // 1, 0, 2 and 3, 0, 4: the layer between has no experts.
  EXPECT_EQ(dump_json(*out.find("meta_info")->find("routed_experts")),
            "\"AQAAAAAAAAACAAAAAwAAAAAAAAAEAAAA\"");
  EXPECT_EQ(dump_json(*out.find("meta_info")->find("routed_experts_shape")), "[2,3,1]");
}

TEST(TokenNames, parts_of_characters_have_their_bytes) {
  const Tokenizer tokenizer = Tokenizer::open(GLINT_SOURCE_DIR "/models/glm5-tiny").value();
  // A character that the small vocabulary does not have comes as its bytes.
  const std::string text = "\xf0\x9f\xa6\x96";
  const std::vector<TokenId> ids = tokenizer.encode(text).value();
  EXPECT_GT(ids.size(), 1u);
  std::string bytes;
  for (const TokenId id : ids) {
    const Json list = names().bytes_json(id);
    for (const Json& byte : list.as_array()) bytes += static_cast<char>(byte.as_int());
  }
  EXPECT_EQ(bytes, text);
}

}  // namespace
}  // namespace glint
