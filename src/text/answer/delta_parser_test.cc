#include "text/answer/delta_parser.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/str.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_bytes.h"

namespace glint {
namespace {

using Tokens = std::vector<TokenId>;

const Tokenizer& tokenizer() {
  static const Tokenizer tokenizer =
      Tokenizer::open(str(GLINT_SOURCE_DIR, "/models/glm5-tiny")).value();
  return tokenizer;
}

Tokens encode(const std::string& text, bool parse_special = true) {
  return tokenizer().encode(text, {.parse_special = parse_special}).value();
}

std::vector<ToolSpec> tools(const char* properties) {
  Json parameters = parse_json(str(R"({"type":"object","properties":)", properties, "}")).value();
  return {{"f", std::move(parameters)}, {"get_weather", Json()}};
}

constexpr const char* kTyped = R"({"s":{"type":"string"},"i":{"type":"integer"},
    "a":{"type":"array"},"n":{"type":["string","null"]}})";

// An answer as "reasoning|content|f{...}g{...}!stop".
std::string shown(const ParsedAnswer& answer, const DeltaParser& parser) {
  std::string out =
      str(answer.reasoning.value_or("null"), "|", answer.content.value_or("null"), "|");
  for (const ParsedAnswer::Call& call : answer.calls) out += call.name + call.arguments;
  if (parser.stopped()) out += "!" + parser.stop_string();
  return out;
}

// The tokens fed in groups of what `size` gives.
template <class Size>
std::string parsed(const Tokens& tokens, const DeltaOptions& options, Size size) {
  DeltaParser parser(tokenizer(), options);
  ParsedAnswer answer;
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t n = std::min<std::size_t>(size(), tokens.size() - at);
    answer.add(parser.feed(std::span(tokens).subspan(at, n)));
    at += n;
  }
  answer.add(parser.finish());
  return shown(answer, parser);
}

// Every text is read as tokens and as plain letters, at once and one token at a time.
std::string parsed(const std::string& text, const DeltaOptions& options) {
  const Tokens tokens = encode(text), letters = encode(text, /*parse_special=*/false);
  const std::string whole = parsed(tokens, options, [&] { return tokens.size(); });
  EXPECT_EQ(parsed(tokens, options, [] { return 1; }), whole);
  EXPECT_EQ(parsed(letters, options, [] { return 1; }), whole);
  EXPECT_EQ(parsed(letters, options, [] { return 7; }), whole);
  return whole;
}

TEST(DeltaParser, after_content_a_call_may_be_text) {
  const std::string text = "</think>{\"a\": \"<tool_call>f</tool_call>\"}";
  const DeltaOptions options = {.in_reasoning = true, .tools = tools(kTyped), .calls_first = true};
  EXPECT_EQ(parsed(text, options), "null|{\"a\": \"<tool_call>f</tool_call>\"}|");
  EXPECT_EQ(
      parsed("</think>\n<tool_call>get_weather</tool_call>\n<tool_call>f</tool_call>", options),
      "null|null|get_weather{}f{}");
}

TEST(DeltaParser, calls_come_first_after_a_thought_that_stays_in_the_content) {
  const DeltaOptions options = {
      .parse_reasoning = false, .in_reasoning = true, .tools = tools(kTyped), .calls_first = true};
  EXPECT_EQ(parsed("A </think>\n<tool_call>f</tool_call>\nB<tool_call>f</tool_call>", options),
            "null|A </think>\n\nB<tool_call>f</tool_call>|f{}");
  EXPECT_EQ(parsed("<think>A</think>B<tool_call>f</tool_call>", options),
            "null|<think>A</think>B<tool_call>f</tool_call>|");
}

TEST(DeltaParser, reasoning_and_content) {
  const DeltaOptions thinking{.in_reasoning = true};
  EXPECT_EQ(parsed("<think>A</think>B", thinking), "A|B|");
  EXPECT_EQ(parsed("A</think>B", thinking), "A|B|");
  EXPECT_EQ(parsed("B", thinking), "B|null|");
  EXPECT_EQ(parsed("<think>A</think>", thinking), "A|null|");
  EXPECT_EQ(parsed("<think>A", thinking), "A|null|");
  EXPECT_EQ(parsed("<think>A\nA2</think>B\nC", thinking), "A\nA2|B\nC|");
  EXPECT_EQ(parsed("A<tool_call>f</tool_call>", thinking), "A|null|f{}");
  EXPECT_EQ(parsed(" A \n</think>\n\nB\n", thinking), " A|\n\nB\n|");
  EXPECT_EQ(parsed(" \n</think>B", thinking), "null|B|");
  EXPECT_EQ(parsed("\n<think>A</think>B", {}), "A|\nB|");
  EXPECT_EQ(parsed("</think>B", {}), "null|B|");
  EXPECT_EQ(parsed("<think>A</think>B", {.parse_reasoning = false}), "null|<think>A</think>B|");
  EXPECT_EQ(parsed("A</thi", thinking), "A</thi|null|");
  EXPECT_EQ(parsed("", thinking), "null|null|");
}

TEST(DeltaParser, markers_of_thoughts_are_text_when_the_thought_is_over) {
  const DeltaOptions thinking{.in_reasoning = true};
  const std::string code = "s = re.sub(r'<think>.*?</think>', '', s)";
  EXPECT_EQ(parsed(code, {}), "null|" + code + "|");
  EXPECT_EQ(parsed("A</think>" + code, thinking), "A|" + code + "|");
  EXPECT_EQ(parsed("A</think></think>B <think> C", thinking), "A|</think>B <think> C|");
  EXPECT_EQ(parsed("</think><think>A</think>B", {}), "null|<think>A</think>B|");
  EXPECT_EQ(parsed("A<tool_call>f</tool_call></think>B</think>", thinking), "A|B</think>|f{}");
  EXPECT_EQ(parsed("A</think><tool_call>f</tool_call><think>B</think>", thinking),
            "A|<think>B</think>|f{}");
  EXPECT_EQ(parsed("A</think>B<tool_call>f</tool_call></think>C", thinking), "A|B</think>C|f{}");
}

TEST(DeltaParser, tool_calls) {
  EXPECT_EQ(parsed("<tool_call>f</tool_call>", {}), "null|null|f{}");
  EXPECT_EQ(parsed("<tool_call>f\n</tool_call>", {}), "null|null|f{}");
  EXPECT_EQ(parsed("I'll check it. <tool_call>f</tool_call>", {}), "null|I'll check it.|f{}");
  EXPECT_EQ(parsed("  \n<tool_call>f</tool_call>", {}), "null|null|f{}");
  EXPECT_EQ(parsed("<tool_call>f</tool_call>\n<tool_call>g</tool_call>", {}), "null|null|f{}g{}");
  EXPECT_EQ(parsed("<tool_call>f</tool_call><tool_call>g</tool_call>\nafter \n", {}),
            "null|after|f{}g{}");
  EXPECT_EQ(parsed("A \n<tool_call>f</tool_call>\nB", {}), "null|A \n\nB|f{}");
  EXPECT_EQ(parsed("<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>Bei\njing </arg_value>\n"
                   "<arg_key> b </arg_key>\\n<arg_value>42</arg_value>\n</tool_call>",
                   {}),
            R"(null|null|f{"a": "Bei\njing ", "b": "42"})");
  EXPECT_EQ(parsed("<tool_call>f<arg_key>a</arg_key><arg_value>x <y \"z\\&lt;</tool_call>"
                   "</arg_value></tool_call>",
                   {}),
            R"(null|null|f{"a": "x <y \"z\\&lt;</tool_call>"})");
  EXPECT_EQ(parsed("no call <tool> < tool_call>", {}), "null|no call <tool> < tool_call>|");
  EXPECT_EQ(parsed("<tool_call>f</tool_call>", {.parse_tools = false}),
            "null|<tool_call>f</tool_call>|");
  EXPECT_EQ(parsed("A<tool_call>f</think>", {.in_reasoning = true, .parse_tools = false}),
            "A<tool_call>f|null|");
}

TEST(DeltaParser, names_end_at_their_line_or_first_blank) {
  const DeltaOptions options{.tools = tools("{}")};
  EXPECT_EQ(parsed("<tool_call>\n get_weather \n</tool_call>", options), "null|null|get_weather{}");
  EXPECT_EQ(parsed("<tool_call>f\nmore</tool_call>", options), "null|null|f{}");
  EXPECT_EQ(parsed("<tool_call>f more\n</tool_call>", options), "null|null|f{}");
  EXPECT_EQ(parsed("<tool_call>ff</tool_call>", options), "null|null|");
  EXPECT_EQ(parsed("<tool_call>any name\nmore</tool_call>", {}), "null|null|any name{}");
  EXPECT_EQ(parsed("<tool_call> </tool_call>", {}), "null|null|");
}

TEST(DeltaParser, calls_of_unknown_functions_are_dropped) {
  const DeltaOptions options{.tools = tools("{}")};
  EXPECT_EQ(parsed("A <tool_call>g<arg_key>a</arg_key><arg_value>1</arg_value></tool_call> "
                   "B<tool_call>f</tool_call>",
                   options),
            "null|A  B|f{}");
  EXPECT_EQ(parsed("A <tool_call>g</tool_call> ", options), "null|A  |");
}

TEST(DeltaParser, arguments_have_the_types_of_their_schema) {
  const DeltaOptions options{.tools = tools(kTyped)};
  const auto call = [](const char* key, const char* value) {
    return str("<tool_call>f<arg_key>", key, "</arg_key><arg_value>", value,
               "</arg_value></tool_call>");
  };
  EXPECT_EQ(parsed(call("s", "123_456"), options), R"(null|null|f{"s": "123_456"})");
  EXPECT_EQ(parsed(call("i", "123_456"), options), R"(null|null|f{"i": 123456})");
  EXPECT_EQ(parsed(call("a", "[\"a\",1]"), options), R"(null|null|f{"a": ["a", 1]})");
  EXPECT_EQ(parsed(call("n", "null"), options), R"(null|null|f{"n": null})");
  EXPECT_EQ(parsed(call("x", "null"), options), R"(null|null|f{"x": "null"})");
}

TEST(DeltaParser, markers_in_strings_of_json_are_parts_of_them) {
  const DeltaOptions options{.tools = tools(kTyped)};
  const auto call = [](const char* value) {
    return str("<tool_call>f<arg_key>a</arg_key><arg_value>", value,
               "</arg_value></tool_call>B<tool_call>f</tool_call>");
  };
  EXPECT_EQ(parsed(call(R"( ["\\\"</arg_value>", "</tool_call>"])"), options),
            R"(null|B|f{"a": ["\\\"</arg_value>", "</tool_call>"]}f{})");
  EXPECT_EQ(parsed(call(R"(["x)"), options), R"(null|B|f{"a": "[\"x"}f{})");
  EXPECT_EQ(parsed(call(R"("x)"), options), R"(null|B|f{"a": "\"x"}f{})");
}

TEST(DeltaParser, a_key_that_comes_twice_stands_twice) {
  const std::string call =
      "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>a</arg_key>"
      "<arg_value>2</arg_value></tool_call>";
  EXPECT_EQ(parsed(call, {}), R"(null|null|f{"a": "1", "a": "2"})");
}

TEST(DeltaParser, calls_that_were_cut_off_are_closed) {
  const DeltaOptions options{.tools = tools(kTyped)};
  EXPECT_EQ(parsed("<tool_call>f", options), "null|null|");
  EXPECT_EQ(parsed("<tool_call>f<arg_key>s", options), "null|null|f{}");
  EXPECT_EQ(parsed("<tool_call>f<arg_key>s</arg_key><arg_value>Bei", options),
            R"(null|null|f{"s": "Bei"})");
  EXPECT_EQ(parsed("<tool_call>f<arg_key>s</arg_key><arg_value>Bei</arg_", options),
            R"(null|null|f{"s": "Bei"})");
  EXPECT_EQ(parsed("<tool_call>f<arg_key>s</arg_key><arg_value>Bei<tool_", options),
            R"(null|null|f{"s": "Bei<tool_"})");
  EXPECT_EQ(parsed("<tool_call>f<arg_key>s</arg_key><arg_value>x</arg_value><arg_key>i</arg_key>"
                   "<arg_value>4",
                   options),
            R"(null|null|f{"s": "x"})");
  EXPECT_EQ(parsed("<tool_call>f<arg_key>i</arg_key><arg_value>4</arg_value>", options),
            R"(null|null|f{"i": 4})");
  EXPECT_EQ(parsed("<tool_call>f<arg_key>i</arg_key><arg_value>4</arg_value><tool_call>f\n"
                   "</tool_call>",
                   options),
            R"(null|null|f{"i": 4}f{})");
  EXPECT_EQ(parsed("<tool_call><tool_call>f</tool_call>", options), "null|null|f{}");
}

TEST(DeltaParser, a_string_that_was_cut_off_holds_no_calls) {
  const DeltaOptions options{.tools = tools(kTyped)};
  const Tokens tokens = encode(
      "<tool_call>f<arg_key>s</arg_key><arg_value>x</arg_value><arg_key>a</arg_key><arg_value>[\"y"
      "</arg_value></tool_call><tool_call>f</tool_call>B");
  for (const bool is_cut : {false, true}) {
    DeltaParser parser(tokenizer(), options);
    ParsedAnswer answer;
    answer.add(parser.feed(tokens));
    answer.add(parser.finish(is_cut));
    EXPECT_EQ(shown(answer, parser),
              is_cut ? R"(null|null|f{"s": "x"})" : R"(null|B|f{"s": "x", "a": "[\"y"}f{})");
  }
}

TEST(DeltaParser, stop_strings_end_reasoning_and_content) {
  DeltaOptions options{.in_reasoning = true, .stop = {"END", "</think>x", "\n\n"}};
  EXPECT_EQ(parsed("a END b", options), "a|null|!END");
  EXPECT_EQ(parsed("a</think>b ENDc", options), "a|b |!END");
  EXPECT_EQ(parsed("a</think>EN", options), "a|EN|");
  EXPECT_EQ(parsed("a</think>b\n\nc", options), "a|b|!\n\n");
  EXPECT_EQ(parsed("a</think>b<tool_call>f<arg_key>k</arg_key><arg_value>END</arg_value>"
                   "</tool_call>cENDd",
                   options),
            R"(a|bc|f{"k": "END"}!END)");
  options.include_stop = true;
  EXPECT_EQ(parsed("a END b", options), "a END|null|!END");
  EXPECT_EQ(parsed("a</think>b \n\nc", options), "a|b \n\n|!\n\n");
  EXPECT_EQ(parsed("b<tool_call>f</tool_call>c<tool_call>f</tool_call>",
                   {.stop = {"</tool_call>"}, .include_stop = true}),
            "null|b|f{}!</tool_call>");
  EXPECT_EQ(parsed("<think>aaab<tool_call>",
                   {.parse_reasoning = false, .parse_tools = false, .stop = {"", "zz", "aab"}}),
            "null|<think>a|!aab");
  // Markers can be stop strings, and win.
  EXPECT_EQ(parsed("a</think>b", {.in_reasoning = true, .stop = {"</think>"}}), "a|null|!</think>");
}

TEST(DeltaParser, stop_strings_within_min_tokens_are_text) {
  DeltaOptions options{.stop = {"END"}};
  EXPECT_EQ(parsed("x END y END z", options), "null|x |!END");
  options.min_tokens = static_cast<int>(encode("x END y").size());
  EXPECT_EQ(parsed("x END y END z", options), "null|x END y |!END");
  options.min_tokens = 100;
  EXPECT_EQ(parsed("x END y END z", options), "null|x END y END z|");
  // Markers among them stay markers, also at the end of one.
  options = {.in_reasoning = true, .stop = {"</think>", "y<tool_call>"}, .min_tokens = 100};
  EXPECT_EQ(parsed("x</think>y<tool_call>f</tool_call>", options), "x|y|f{}");
  options.parse_tools = false;
  EXPECT_EQ(parsed("x</think>y<tool_call>f", options), "x|y<tool_call>f|");
}

TEST(DeltaParser, special_tokens_are_text_only_if_wanted) {
  EXPECT_EQ(parsed(encode("a<|user|>b"), {}, [] { return 1; }), "null|ab|");
  EXPECT_EQ(parsed(encode("a<|user|>b"), {.skip_special = false}, [] { return 1; }),
            "null|a<|user|>b|");
}

TEST(DeltaParser, counts_reasoning_tokens) {
  DeltaParser parser(tokenizer(), {.in_reasoning = true});
  Tokens tokens = encode("one two three");
  const auto num = static_cast<int>(tokens.size());
  parser.feed(tokens);
  parser.feed(encode("</think>answer"));
  EXPECT_EQ(parser.num_reasoning_tokens(), num);
}

TEST(DeltaParser, streams_what_is_certain) {
  DeltaParser parser(tokenizer(), {.tools = tools(kTyped)});
  const auto args = [&](const std::string& text) {
    std::string out;
    for (const Delta& delta : parser.feed(encode(text))) {
      if (delta.kind == Delta::Kind::kToolBegin) out += delta.text + ":";
      if (delta.kind == Delta::Kind::kToolArguments) out += delta.text;
      if (delta.kind == Delta::Kind::kToolEnd) out += ";";
    }
    return out;
  };
  EXPECT_EQ(args("<tool_call>f"), "");
  EXPECT_EQ(args("<arg_key>"), "f:");
  EXPECT_EQ(args("s</arg_key>"), "");
  EXPECT_EQ(args("<arg_value>"), "{\"s\": \"");
  EXPECT_EQ(args("Bei"), "Bei");
  EXPECT_EQ(args("jing\n"), "jing\\n");
  EXPECT_EQ(args("</arg_value><arg_key>i</arg_key><arg_value>4"), "\"");
  EXPECT_EQ(args("2"), "");
  EXPECT_EQ(args("</arg_value>"), ", \"i\": 42");
  EXPECT_EQ(args("</tool_call>"), "};");
}

TEST(DeltaParser, the_prompt_says_whether_the_answer_begins_in_reasoning) {
  const auto ends = [](const char* text) { return ends_in_reasoning(tokenizer(), encode(text)); };
  EXPECT_TRUE(ends("<|user|>hi<|assistant|><think>"));
  EXPECT_TRUE(ends("<|user|>hi<|assistant|><think>so far"));
  EXPECT_FALSE(ends("<|user|>hi<|assistant|><think></think>"));
  EXPECT_FALSE(ends("<|user|>hi<|assistant|>"));
  EXPECT_FALSE(ends("<|user|>what is <think>?<|assistant|>"));
  EXPECT_TRUE(ends("<|assistant|><think>a</think>b<|user|>c<|assistant|><think>"));
  EXPECT_FALSE(ends(""));
}

// Builds an answer and what must come of it.
struct Answer {
  std::string text, reasoning, content, calls;
};

std::string random_text(Random& random) {
  static const std::vector<std::string> kPieces = {
      "a",  "word ", "\"", "\\",        "\n",    "<",     "</",   "</arg_", "<tool",   "é",
      "漢", "😀",     "{}", "\\u0041\t", "think", "_cal>", "\x01", "&lt;",   "\xc2\x85"};
  std::string text;
  for (std::uint32_t i = random.below(8); i > 0; --i)
    text += kPieces[random.below(static_cast<std::uint32_t>(kPieces.size()))];
  return text;
}

// Text with something to see at both ends, that begins and ends no marker.
std::string random_words(Random& random) { return "(" + random_text(random) + ")"; }

Answer random_answer(Random& random) {
  Answer answer;
  if (random.below(2)) {
    answer.reasoning = random_words(random);
    answer.text = answer.reasoning + (random.below(2) ? " \n" : "");
  }
  answer.text += "</think>";
  if (random.below(2)) {
    answer.content = random_words(random);
    answer.text += answer.content;
  }
  for (std::uint32_t calls = random.below(3); calls > 0; --calls) {
    answer.text += random.below(2) ? "\n<tool_call>f" : "<tool_call>f\n";
    answer.calls += "f{";
    const std::uint32_t num_arguments = random.below(4);
    for (std::uint32_t i = 0; i < num_arguments; ++i) {
      const bool number = random.below(3) == 0;
      const std::string value = number ? std::to_string(random.bits()) : random_words(random);
      answer.text += str("<arg_key>", number ? "i" : "s", "</arg_key>", random.below(2) ? "\n" : "",
                         "<arg_value>", value, "</arg_value>");
      answer.calls +=
          str(i ? ", " : "", "\"", number ? "i" : "s",
              "\": ", dump_json(number ? Json(std::int64_t{std::stoll(value)}) : Json(value)));
    }
    answer.text += "</tool_call>";
    answer.calls += "}";
  }
  return answer;
}

// The text as tokens, cut at random places, also inside characters and markers.
Tokens random_tokens(const std::string& text, Random& random) {
  Tokens tokens;
  const bool whole_markers = random.below(2);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t n = std::min<std::size_t>(1 + random.below(9), text.size() - at);
    const std::size_t marker = text[at] == '<' ? text.find('>', at) : text.npos;
    if (whole_markers && marker != text.npos &&
        tokenizer().token_to_id(text.substr(at, marker + 1 - at))) {
      n = marker + 1 - at;
      tokens.push_back(*tokenizer().token_to_id(text.substr(at, n)));
      at += n;
      continue;
    }
    while (at + n < text.size() && is_continuation(text[at + n])) ++n;
    if (random.below(3) == 0) {
      for (const char byte : text.substr(at, n))
        tokens.push_back(*tokenizer().token_to_id(bytes_to_letters(std::string(1, byte))));
    } else {
      for (const TokenId id : encode(text.substr(at, n), /*parse_special=*/false))
        tokens.push_back(id);
    }
    at += n;
  }
  return tokens;
}

TEST(DeltaParser, the_cuts_never_show) {
  Random random(11);
  const DeltaOptions options{.in_reasoning = true, .tools = tools(kTyped)};
  for (int round = 0; round < 3000; ++round) {
    const Answer answer = random_answer(random);
    const std::string expected =
        str(answer.reasoning.empty() ? "null" : answer.reasoning, "|",
            answer.content.empty() ? "null" : answer.content, "|", answer.calls);
    const Tokens tokens = random_tokens(answer.text, random);
    ASSERT_EQ(parsed(tokens, options, [] { return 1; }), expected) << answer.text;
    ASSERT_EQ(parsed(tokens, options, [&] { return 1 + random.below(20); }), expected)
        << answer.text;
    ASSERT_EQ(parsed(encode(answer.text), options, [] { return 3; }), expected) << answer.text;
  }
}

// Any tokens at all, with stop strings: every cut gives the same, and the arguments are JSON.
TEST(DeltaParser, the_cuts_of_nonsense_never_show) {
  Random random(12);
  const Tokens markers =
      encode("<think></think><tool_call></tool_call><arg_key></arg_key><arg_value></arg_value>fsi");
  for (int round = 0; round < 3000; ++round) {
    Tokens tokens;
    for (std::uint32_t i = random.below(60); i > 0; --i) {
      const bool any = random.below(3) == 0;
      tokens.push_back(any ? static_cast<TokenId>(random.below(3700))
                           : markers[random.below(static_cast<std::uint32_t>(markers.size()))]);
    }
    const DeltaOptions options{.parse_reasoning = random.below(4) > 0,
                               .in_reasoning = random.below(2) > 0,
                               .parse_tools = random.below(4) > 0,
                               .tools = random.below(2) ? tools(kTyped) : std::vector<ToolSpec>(),
                               .stop = {"fs", "</arg_key>i", "s<think>"},
                               .min_tokens = static_cast<int>(random.below(12)),
                               .include_stop = random.below(2) > 0,
                               .skip_special = random.below(2) > 0};
    const std::string whole = parsed(tokens, options, [&] { return tokens.size(); });
    ASSERT_EQ(parsed(tokens, options, [] { return 1; }), whole);
    ASSERT_EQ(parsed(tokens, options, [&] { return 1 + random.below(9); }), whole);
    DeltaParser parser(tokenizer(), options);
    ParsedAnswer answer;
    answer.add(parser.feed(tokens));
    answer.add(parser.finish());
    for (const ParsedAnswer::Call& call : answer.calls)
      ASSERT_TRUE(parse_json(call.arguments).ok()) << call.arguments;
    ASSERT_EQ(static_cast<int>(answer.calls.size()), parser.num_tools());
  }
}

TEST(DeltaParser, a_hundred_thousand_tokens_are_read_once) {
  DeltaParser parser(tokenizer(), {.tools = tools(kTyped)});
  ParsedAnswer answer;
  const auto feed = [&](const std::string& text) {
    for (const TokenId token : encode(text)) answer.add(parser.feed(std::span(&token, 1)));
  };
  std::string value;
  for (int i = 0; i < 100000; ++i) value += " \n<";
  feed("<tool_call>f<arg_key>s</arg_key><arg_value>" + value);
  feed("</arg_value><arg_key>a</arg_key><arg_value>[" + value);
  feed("</arg_value></tool_call>" + value);
  answer.add(parser.finish());
  const Json arguments = parse_json(answer.calls.at(0).arguments).value();
  EXPECT_EQ(arguments.find("s")->as_string(), value);
  EXPECT_EQ(arguments.find("a")->as_string(), "[" + value);  // is no list
  EXPECT_EQ(answer.content->size(), value.size() - 2);
}

}  // namespace
}  // namespace glint
