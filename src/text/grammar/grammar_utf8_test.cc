// Grammars let only valid UTF-8 pass, byte by byte: no half a surrogate pair, nothing longer than
// it need be, nothing beyond the last code point.
#include <gtest/gtest.h>

#include "base/str.h"
#include "base/utf8.h"
#include "text/grammar/grammar_testing.h"

namespace glint {
namespace {

using Kind = GrammarSpec::Kind;

// Tokens are single bytes, of the same number.
const TestGrammars& byte_grammars() {
  static const TestGrammars grammars(large_tokenizer(257), 257);
  return grammars;
}

// A character that begins with these bytes.
std::string some_character(int lead, int second) {
  std::string text = {static_cast<char>(lead), static_cast<char>(second)};
  if (lead >= 0xE0) text += '\x80';
  if (lead >= 0xF0) text += '\x80';
  return text;
}

// Pairs of bytes, of which the first is not ASCII, that the grammar takes wrongly or wrongly not.
std::vector<std::string> faults(const GrammarSpec& spec, std::string_view before) {
  const auto constraint = byte_grammars().constrain(spec);
  for (const char byte : before)
    EXPECT_TRUE(constraint->accept(static_cast<unsigned char>(byte))) << spec.text;
  std::vector<std::string> wrong;
  for (int lead = 0x80; lead <= 0xFF; ++lead) {
    const bool begins = constraint->accept(lead);
    for (int second = 0; second <= 0xFF; ++second) {
      const bool taken = begins && constraint->accept(second);
      if (taken) constraint->rollback(1);
      if (taken != is_valid_utf8(some_character(lead, second)))
        wrong.push_back(formatted("%02x %02x", lead, second));
    }
    if (begins) constraint->rollback(1);
  }
  return wrong;
}

TEST(GrammarUtf8, characters_are_valid_from_their_first_two_bytes_on) {
  for (const char* expression :
       {".+", "[^a]+", "\\D", "\\W", "\\S{3}", "[^a]{150}", "[\\u{80}-\\u{10ffff}]", "a|[^b]x"})
    EXPECT_EQ(faults({.kind = Kind::kRegex, .text = expression}, ""), std::vector<std::string>{})
        << expression;
  for (const char* schema :
       {R"({"type": "string"})", R"({"type": "string", "minLength": 2})",
        R"({"type": "string", "maxLength": 900})", R"({"type": "string", "pattern": "^\\W+$"})",
        R"({"type": "string", "pattern": "^[^a]{150}$"})", R"({"type": "string", "pattern": "x"})"})
    EXPECT_EQ(faults({.kind = Kind::kJsonSchema, .text = schema}, "\""), std::vector<std::string>{})
        << schema;
  for (const char* ebnf : {"root ::= [^a]*", "root ::= [^a] | \"b\"",
                           "root ::= a a\na ::= [\\x80-\\U0010ffff] \"b\" | [^b] a"})
    EXPECT_EQ(faults({.kind = Kind::kEbnf, .text = ebnf}, ""), std::vector<std::string>{}) << ebnf;
  EXPECT_EQ(faults({.kind = Kind::kJsonObject}, "{\""), std::vector<std::string>{});
  const Json parameters =
      parse_json(R"({"properties":{"a":{"type":"string","maxLength":9}}})").value();
  const GrammarSpec call = {.kind = Kind::kToolCalls, .tools = {{"f", parameters}}};
  EXPECT_EQ(faults(call, "<tool_call>f<arg_key>a</arg_key><arg_value>"),
            std::vector<std::string>{});
}

TEST(GrammarUtf8, half_a_character_is_refused) {
  const auto error_of = [](Kind kind, const char* text) {
    const auto grammar = byte_grammars().compiler.compile({.kind = kind, .text = text});
    return grammar.ok() ? "" : grammar.error().message;
  };
  for (const char* expression : {"\\ud83d\\ude00", "a|\\u{d800}", "[\\ud800]"})
    EXPECT_NE(error_of(Kind::kRegex, expression).find("write the whole character"),
              std::string::npos)
        << expression;
  EXPECT_NE(error_of(Kind::kJsonSchema, R"({"type": "string", "pattern": "^\\udfff$"})"), "");
  EXPECT_NE(error_of(Kind::kEbnf, R"(root ::= "\ud800")"), "");
  EXPECT_NE(error_of(Kind::kRegex, "[\\ud800-\\udfff]"), "");
}

}  // namespace
}  // namespace glint
