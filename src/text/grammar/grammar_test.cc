#include "text/grammar/grammar.h"

#include <gtest/gtest.h>

#include <regex>
#include <thread>

#include "base/random.h"
#include "base/str.h"
#include "text/grammar/schema_testing.h"
#include "text/grammar/tiny_grammars.h"

namespace glint {
namespace {

using Kind = GrammarSpec::Kind;
using Next = TokenConstraint::Next;

const Tokenizer& tiny() { return tiny_grammars().tokenizer; }

std::string error_of(const GrammarSpec& spec) {
  const auto grammar = tiny_grammars().compiler.compile(spec);
  return grammar.ok() ? "" : grammar.error().message;
}

bool allowed(const GrammarSpec& spec, std::string_view text) {
  const auto constraint = tiny_grammars().constrain(spec);
  const std::vector<TokenId> tokens = tiny().encode(text).value();
  return std::ranges::all_of(tokens, [&](TokenId token) { return constraint->accept(token); });
}

TEST(Grammar, every_text_is_valid_under_its_schema) {
  Random random(1);
  for (const char* schema : kSchemas) {
    const Json parsed = parse_json(schema).value();
    for (int round = 0; round < 25; ++round) {
      const Walk walk = tiny_grammars().walk({.kind = Kind::kJsonSchema, .text = schema}, random);
      if (!walk.complete) continue;  // an endless text, cut off
      const Result<Json> value = parse_json(walk.text);
      ASSERT_TRUE(value.ok()) << schema << "\n" << walk.text << "\n" << value.error().message;
      EXPECT_EQ(why_invalid(value.value(), parsed, parsed), "") << schema << "\n" << walk.text;
    }
  }
}

TEST(Grammar, json_objects) {
  Random random(2);
  int complete = 0;
  for (int round = 0; round < 50; ++round) {
    const Walk walk = tiny_grammars().walk({.kind = Kind::kJsonObject}, random);
    if (!walk.complete) continue;
    ++complete;
    const Result<Json> value = parse_json(walk.text);
    ASSERT_TRUE(value.ok() && value.value().is_object()) << walk.text;
  }
  EXPECT_GT(complete, 25);
}

TEST(Grammar, expressions_choices_and_ebnf) {
  Random random(3);
  for (const char* expression : {"[a-c]+x?", "(ab|\\d{2,4})-\\w+", "\xc3\xa9+[^a-z]", "a.c|\\n"}) {
    const std::string text(expression);
    for (int round = 0; round < 20; ++round) {
      const Walk walk = tiny_grammars().walk({.kind = Kind::kRegex, .text = text}, random);
      if (walk.complete && text.find_first_of("\xc3.") == text.npos) {
        EXPECT_TRUE(std::regex_match(walk.text, std::regex(text))) << text << "\n" << walk.text;
      }
    }
  }
  for (const char* text : {"abc", "d"}) {
    EXPECT_TRUE(allowed({.kind = Kind::kRegex, .text = "^abc$|^d$"}, text)) << text;
  }
  EXPECT_FALSE(allowed({.kind = Kind::kRegex, .text = "^abc$|^d$"}, "abcd"));
  const std::vector<std::string> choices = {"yes", "no", "yes and no", "\"\\\n", "\xe6\xbc\xa2"};
  for (int round = 0; round < 30; ++round) {
    const Walk walk = tiny_grammars().walk({.kind = Kind::kChoice, .choices = choices}, random);
    EXPECT_TRUE(walk.complete);
    EXPECT_NE(std::find(choices.begin(), choices.end(), walk.text), choices.end()) << walk.text;
  }
  for (int round = 0; round < 20; ++round) {
    const Walk walk = tiny_grammars().walk(
        {.kind = Kind::kEbnf, .text = "root ::= \"(\" root \")\" | \"x\""}, random);
    EXPECT_EQ(!walk.complete || walk.text.size() % 2 == 1, true) << walk.text;
  }
}

const std::vector<ToolSpec>& tools() {
  static const std::vector<ToolSpec> tools = {
      {"f", Json()},
      {"get_weather", parse_json(R"({"type":"object","properties":{
          "city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":14},
          "unit":{"enum":["celsius","fahrenheit"]},"tags":{"type":"array","items":{"type":"string"}},
          "at":{"$ref":"#/$defs/point"},"note":{"type":["string","null"]},
          "id":{"type":"string","pattern":"^[A-Z]{2}[0-9]+$"},"short":{"type":"string","maxLength":5},
          "some":{"type":"string","minLength":2},"exact":{"type":"boolean"}},
          "required":["city","unit"],
          "$defs":{"point":{"type":"object","properties":{"x":{"type":"number"}},
                            "required":["x"]}}})")
                          .value()},
      {"get",
       parse_json(R"({"type":"object","properties":{},"additionalProperties":false})").value()},
  };
  return tools;
}

TEST(Grammar, calls_are_valid_under_their_functions_schemas) {
  Random random(4);
  int num_calls = 0;
  for (int round = 0; round < 150; ++round) {
    const GrammarSpec spec{.kind = Kind::kToolCalls,
                           .tools = tools(),
                           .at_least_one = random.below(3) > 0,
                           .parallel = random.below(2) > 0};
    const Walk walk = tiny_grammars().walk(spec, random);
    if (!walk.complete) continue;
    DeltaParser parser(tiny(), {.tools = tools()});
    ParsedAnswer answer;
    answer.add(parser.feed(walk.tokens));
    answer.add(parser.finish());
    num_calls += static_cast<int>(answer.calls.size());
    if (spec.at_least_one) {
      EXPECT_FALSE(answer.calls.empty()) << walk.text;
      EXPECT_FALSE(answer.content) << walk.text;
    }
    EXPECT_TRUE(spec.parallel || answer.calls.size() < 2) << walk.text;
    for (const ParsedAnswer::Call& call : answer.calls) {
      const auto tool = std::find_if(tools().begin(), tools().end(),
                                     [&](const ToolSpec& t) { return t.name == call.name; });
      ASSERT_NE(tool, tools().end()) << walk.text;
      const Json arguments = parse_json(call.arguments).value();
      if (tool->parameters.is_null()) continue;
      EXPECT_EQ(why_invalid(arguments, tool->parameters, tool->parameters), "") << walk.text;
    }
  }
  EXPECT_GT(num_calls, 50);
}

TEST(Grammar, arguments_are_read_as_their_schemas_say) {
  Random random(8);
  const std::pair<const char*, const char*> forms[] = {
      {R"({"properties":{"a":)", R"(},"required":["a"]})"},
      {R"({"additionalProperties":)", R"(,"required":["a"]})"},
      {R"({"additionalProperties":)", "}"},
  };
  int num_arguments = 0;
  for (const char* schema :
       {R"({"type":"integer","minimum":-3})", R"({"oneOf":[{"type":"null"},{"type":"boolean"}]})",
        R"({"type":"array","items":{"type":"string"},"maxItems":2})",
        R"({"type":"object","properties":{"b":{"type":"number"}},"required":["b"]})",
        R"({"allOf":[{"type":"object"},{"properties":{"b":{"enum":[1,"1"]}}}]})",
        R"({"type":["string","null"],"maxLength":2})"}) {
    for (const auto& [before, after] : forms) {
      const Json parameters = parse_json(str(before, schema, after)).value();
      const GrammarSpec spec{.kind = Kind::kToolCalls, .tools = {{"f", parameters}}};
      for (int round = 0; round < 8; ++round) {
        const Walk walk = tiny_grammars().walk(spec, random);
        if (!walk.complete) continue;
        DeltaParser parser(tiny(), {.tools = spec.tools});
        ParsedAnswer answer;
        answer.add(parser.feed(walk.tokens));
        for (const ParsedAnswer::Call& call : answer.calls) {
          const Json arguments = parse_json(call.arguments).value();
          num_arguments += static_cast<int>(arguments.as_object().size());
          EXPECT_EQ(why_invalid(arguments, parameters, parameters), "") << walk.text;
        }
      }
    }
  }
  EXPECT_GT(num_arguments, 100);
}

TEST(Grammar, arguments_may_be_described_by_reference_and_in_parts) {
  const char* definitions = R"("$defs":{
      "base":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]},
      "more":{"allOf":[{"$ref":"#/$defs/base"},{"properties":{"next":{"$ref":"#"}}}]})";
  const char* odd = R"(,
      "odd":{"allOf":[{"$ref":"#/$defs/more"},{"properties":{"x":{"not":{"const":1}}}}]})";
  const std::string n = "<tool_call>f<arg_key>n</arg_key><arg_value>";
  const std::string next = n + "4</arg_value><arg_key>next</arg_key><arg_value>{\"n\": ";
  const std::string call = next + "5}</arg_value></tool_call>";
  for (const char* name : {"base", "more", "odd"}) {
    for (const auto& [before, after] : {std::pair("{", ","), std::pair(R"({"allOf":[{)", "}],")}) {
      const bool is_odd = name == std::string("odd"), has_next = name != std::string("base");
      const std::string text = str(before, R"("$ref":"#/$defs/)", name, '"', after, definitions,
                                   is_odd ? odd : "", "}}");
      const GrammarSpec spec{
          .kind = Kind::kToolCalls, .tools = {{"f", parse_json(text).value()}}, .lenient = is_odd};
      EXPECT_EQ(error_of(spec), "");
      EXPECT_TRUE(allowed(spec, n + "4</arg_value></tool_call>")) << text;
      EXPECT_FALSE(allowed(spec, n + "x")) << text;
      EXPECT_FALSE(allowed(spec, "<tool_call>f</tool_call>")) << text;
      EXPECT_EQ(allowed(spec, call), has_next) << text;
      EXPECT_EQ(allowed(spec, next + "["), is_odd) << text;
      if (!has_next) continue;
      DeltaParser parser(tiny(), {.tools = spec.tools});
      ParsedAnswer answer;
      answer.add(parser.feed(tiny().encode(call).value()));
      EXPECT_EQ(answer.calls[0].arguments, R"({"n": 4, "next": {"n": 5}})") << text;
    }
  }
}

TEST(Grammar, an_answer_is_calls_or_in_a_format) {
  Random random(7);
  const GrammarSpec spec{.kind = Kind::kToolCalls,
                         .tools = tools(),
                         .instead = std::make_shared<const GrammarSpec>(
                             GrammarSpec{.kind = Kind::kJsonSchema, .text = kSchemas[0]})};
  const Json schema = parse_json(kSchemas[0]).value();
  const TokenId tool_call = *tiny().token_to_id("<tool_call>"), brace = *tiny().token_to_id("{");
  EXPECT_TRUE(tiny_grammars().allows(*tiny_grammars().constrain(spec), tool_call));
  EXPECT_TRUE(tiny_grammars().allows(*tiny_grammars().constrain(spec), brace));
  EXPECT_FALSE(tiny_grammars().allows(*tiny_grammars().constrain(spec), *tiny().token_to_id("a")));
  int num_calls = 0, num_values = 0;
  for (int round = 0; round < 60; ++round) {
    const auto constraint = tiny_grammars().constrain(spec, /*after_reasoning=*/true);
    ASSERT_TRUE(constraint->accept(*tiny().token_to_id("</think>")));
    const TokenId first = round % 2 ? tool_call : brace;
    ASSERT_TRUE(constraint->accept(first));
    std::vector<TokenId> tokens = {first};
    for (int step = 0; step < 300 && tokens.back() != tiny_grammars().stop_id; ++step) {
      tokens.push_back(tiny_grammars().random_token(*constraint, random, 0.2 + step * 0.01));
      ASSERT_TRUE(constraint->accept(tokens.back()));
      const bool marker = tokens.back() == tool_call;
      EXPECT_FALSE(first == brace && marker);
    }
    if (tokens.back() != tiny_grammars().stop_id) continue;
    tokens.pop_back();
    DeltaParser parser(tiny(), {.tools = tools(), .calls_first = true});
    ParsedAnswer answer;
    answer.add(parser.feed(tokens));
    answer.add(parser.finish());
    EXPECT_NE(answer.content.has_value(), !answer.calls.empty());
    num_calls += static_cast<int>(answer.calls.size());
    if (!answer.content) continue;
    ++num_values;
    EXPECT_EQ(why_invalid(parse_json(*answer.content).value(), schema, schema), "");
  }
  EXPECT_GT(num_calls, 10);
  EXPECT_GT(num_values, 10);
}

TEST(Grammar, blanks_between_the_parts_of_json_end) {
  const auto most_blanks = [](const GrammarSpec& spec, const char* before) {
    const auto constraint = tiny_grammars().constrain(spec);
    const std::vector<TokenId> tokens = tiny().encode(before).value();
    for (const TokenId token : tokens) EXPECT_TRUE(constraint->accept(token)) << before;
    int count = 0;
    while (count < 1000 && constraint->accept(*tiny().token_to_id("\xc4\x8a"))) ++count;
    EXPECT_TRUE(tiny_grammars().allows(*constraint, *tiny().token_to_id("\""))) << before;
    return count;
  };
  EXPECT_EQ(most_blanks({.kind = Kind::kJsonObject}, "{"), 20);
  EXPECT_EQ(most_blanks({.kind = Kind::kJsonSchema, .text = kSchemas[0]}, "{\"name\":"), 20);
  EXPECT_EQ(most_blanks({.kind = Kind::kToolCalls, .tools = tools()},
                        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>a</arg_value>"
                        "<arg_key>unit</arg_key><arg_value>celsius</arg_value>"
                        "<arg_key>tags</arg_key><arg_value>["),
            20);
}

TEST(Grammar, what_cannot_be_said_of_arguments_is_left_open_where_it_may_be) {
  const Json parameters = parse_json(R"({"type":"object","properties":{
      "n":{"type":"integer","not":{"const":3}},"step":{"type":"number","multipleOf":0.5},
      "a":{"type":"boolean"},"s":{"type":"string","pattern":"a","minLength":3}},
      "required":["n"],"dependentRequired":{"a":["s"]}})")
                              .value();
  GrammarSpec spec{.kind = Kind::kToolCalls, .tools = {{"f", parameters}}};
  EXPECT_NE(error_of(spec), "");
  spec.lenient = true;
  EXPECT_EQ(error_of(spec), "");
  const std::string n = "<tool_call>f<arg_key>n</arg_key><arg_value>";
  EXPECT_TRUE(allowed(spec, n + "3</arg_value></tool_call>"));
  EXPECT_FALSE(allowed(spec, n + "three"));
  EXPECT_FALSE(allowed(spec, "<tool_call>f</tool_call>"));
  const std::string rest = n + "1</arg_value><arg_key>step</arg_key><arg_value>";
  EXPECT_TRUE(allowed(spec, rest + "0.3</arg_value><arg_key>a</arg_key><arg_value>true</arg_value>"
                                   "<arg_key>s</arg_key><arg_value>x</arg_value></tool_call>"));
  EXPECT_FALSE(allowed(spec, rest + "x"));
}

TEST(Grammar, the_least_characters_of_an_argument_are_none_of_the_marker_behind_it) {
  const Json parameters = parse_json(R"({"type":"object","properties":
      {"a":{"type":"string","minLength":2}},"required":["a"]})")
                              .value();
  const GrammarSpec spec{.kind = Kind::kToolCalls,
                         .tools = {{"f", parameters}},
                         .at_least_one = true,
                         .parallel = false};
  const std::string value = "<tool_call>f<arg_key>a</arg_key><arg_value>";
  const std::string end = "</arg_value></tool_call>";
  for (const char* text : {"ab", "a<b", "<< x", "x <<= 1", "ab<"})
    EXPECT_TRUE(allowed(spec, str(value, text, end))) << text;
  for (const char* text : {"a", "\n<", "<<", "<"})
    EXPECT_FALSE(allowed(spec, str(value, text, end))) << text;
}

TEST(Grammar, an_argument_of_limited_length_is_any_text_without_its_end) {
  const Json parameters =
      parse_json(R"({"properties":{"a":{"type":"string","maxLength":5}}})").value();
  const GrammarSpec spec{.kind = Kind::kToolCalls, .tools = {{"f", parameters}}};
  const std::string value = "<tool_call>f<arg_key>a</arg_key><arg_value>";
  const std::string end = "</arg_value></tool_call>";
  for (const char* text : {"", "<<<", "</a>x", "</</a", "</arg", "\u00e9\u00e9\u00e9\u00e9\u00e9"})
    EXPECT_TRUE(allowed(spec, str(value, text, end))) << text;
  for (const char* text : {"123456", "</</ar", "</arg_value>1"})
    EXPECT_FALSE(allowed(spec, str(value, text, end))) << text;
}

TEST(Grammar, a_pattern_of_an_argument_matches_no_marker) {
  const std::string value = "<tool_call>f<arg_key>a</arg_key><arg_value>";
  const std::string end = "</arg_value></tool_call>";
  for (const char* pattern :
       {"^.+$", "^[^x]+$", "^\\S+$", "^\\D+$", "^\\W+$", "^[\\s\\S]+$", "^[\\s\\S]{1,4000}$",
        "^[\\d\\D]+$", "^[\\w\\W]+$", "^[!-~]+$", "^[\\x00-\\uffff]+$"}) {
    const Json string = Json::Object{{"type", "string"}, {"pattern", pattern}};
    const Json properties = Json::Object{{"a", string}};
    const Json parameters =
        Json::Object{{"properties", properties}, {"required", Json::Array{"a"}}};
    const GrammarSpec spec{.kind = Kind::kToolCalls,
                           .tools = {{"f", parameters}},
                           .at_least_one = true,
                           .parallel = false};
    EXPECT_TRUE(allowed(spec, str(value, "?@{", end))) << pattern;
    EXPECT_FALSE(allowed(spec, str(value, "?<p"))) << pattern;
    EXPECT_FALSE(allowed(spec, str(value, "?", end, "?"))) << pattern;
  }
}

TEST(Grammar, strings_of_json_hold_no_end_of_an_argument_that_may_be_a_text) {
  const std::string end = "</arg_value>", tag = "<b>x</b>", text = "bxxxxb";
  const struct {
    const char *schema, *before, *after;
    std::string string;
  } cases[] = {
      {R"({"enum":["auto"]},{"type":"object"})", R"({"k":[")", R"("]})", tag},
      {R"({"enum":["auto"]},{"type":"object"})", R"({")", R"(":1})", tag},
      {R"({"enum":["auto"]},{"type":"object","patternProperties":{"^b.*$":{}}})", R"({"b)",
       R"(":1})", text},
      {R"({"type":"string","maxLength":1},{"type":"array","items":{"type":"string"}})", R"([")",
       R"("])", tag},
      {R"({"type":"string","pattern":"^a$"},{"type":"array","items":{"enum":["</arg_value>",1]}})",
       "[", "]", "1"},
      {R"({"const":"a"},{"type":"array","items":{"type":"string","pattern":"^.{5,40}$"}})", R"([")",
       R"("])", text},
      {R"({"const":"a"},{"type":"array","items":{"type":"string","minLength":1,"maxLength":40}})",
       R"([")", R"("])", text},
      {R"({"required":["k"]})", R"({"k":")", R"("})", tag},
  };
  for (const auto& [schemas, before, after, string] : cases) {
    const std::string one = str(R"({"anyOf":[)", schemas, "]}");
    const Json schema = parse_json(one).value();
    const Json others = Json::Object{{"additionalProperties", schema}};
    const Json parameters = Json::Object{{"properties", Json::Object{{"a", schema}}}};
    for (const Json& each : {parameters, others}) {
      const GrammarSpec spec{.kind = Kind::kToolCalls, .tools = {{"f", each}}};
      const std::string value = str("<tool_call>f<arg_key>a</arg_key><arg_value>", before);
      EXPECT_FALSE(allowed(spec, str(value, end))) << schemas;
      EXPECT_FALSE(allowed(spec, str(value, '"', end))) << schemas;
      EXPECT_TRUE(allowed(spec, str(value, string, after, end))) << schemas;
    }
  }
}

TEST(Grammar, strings_of_json_may_hold_the_markers_of_calls) {
  const Json parameters =
      Json::Object{{"properties", Json::Object{{"a", Json::Object{{"type", "object"}}}}}};
  const GrammarSpec spec{.kind = Kind::kToolCalls, .tools = {{"f", parameters}}};
  const std::string call =
      "<tool_call>f<arg_key>a</arg_key><arg_value>{\"k\": "
      "\"</arg_value>\"}</arg_value></tool_call>";
  EXPECT_TRUE(allowed(spec, call));
  DeltaParser parser(tiny(), {.tools = spec.tools});
  ParsedAnswer answer;
  answer.add(parser.feed(tiny().encode(call).value()));
  ASSERT_EQ(answer.calls.size(), 1u);
  EXPECT_EQ(answer.calls[0].arguments, R"({"a": {"k": "</arg_value>"}})");
}

TEST(Grammar, references_within_arguments_lead_to_their_function) {
  const Json parameters = parse_json(R"({"type":"object","properties":{"n":{"type":"integer"},
      "a":{"type":"array","items":{"$ref":"#"}},"b":{"type":"array","items":
      {"$ref":"#/properties/n"}}}})")
                              .value();
  const GrammarSpec spec{.kind = Kind::kToolCalls, .tools = {{"f", parameters}}};
  const std::string a = "<tool_call>f<arg_key>a</arg_key><arg_value>[";
  EXPECT_TRUE(allowed(spec, a + R"({"n":1,"a":[{"n":2,"b":[3]}]}]</arg_value>)"));
  EXPECT_FALSE(allowed(spec, a + "["));
  EXPECT_FALSE(allowed(spec, a + R"({"b":["x)"));
}

TEST(Grammar, a_function_without_parameters_takes_none) {
  for (const char* parameters : {"null", R"({"type":"object","properties":{}})"}) {
    Random random(5);
    const GrammarSpec spec{.kind = Kind::kToolCalls,
                           .tools = {{"f", parse_json(parameters).value()}},
                           .parallel = false};
    EXPECT_EQ(tiny_grammars().walk(spec, random).text, "<tool_call>f</tool_call>");
  }
}

TEST(Grammar, one_function_can_be_forced) {
  Random random(5);
  const GrammarSpec spec{.kind = Kind::kToolCalls, .tools = {tools()[2]}, .parallel = false};
  const Walk walk = tiny_grammars().walk(spec, random);
  EXPECT_TRUE(walk.complete);
  EXPECT_EQ(walk.text, "<tool_call>get</tool_call>");
}

TEST(Grammar, stop_tokens_come_only_where_the_grammar_is_complete) {
  const auto constraint = tiny_grammars().constrain({.kind = Kind::kRegex, .text = "ab?"});
  const TokenId a = *tiny().token_to_id("a"), b = *tiny().token_to_id("b");
  const TokenId stop = tiny_grammars().stop_id;
  EXPECT_FALSE(constraint->accept(stop));
  EXPECT_FALSE(tiny_grammars().ends(*constraint));
  EXPECT_TRUE(constraint->accept(a));
  EXPECT_TRUE(tiny_grammars().allows(*constraint, stop));
  EXPECT_FALSE(tiny_grammars().ends(*constraint));
  EXPECT_FALSE(constraint->accept(a));
  EXPECT_TRUE(constraint->accept(b));
  EXPECT_TRUE(tiny_grammars().ends(*constraint));
  EXPECT_TRUE(constraint->accept(stop));
  EXPECT_TRUE(tiny_grammars().ends(*constraint));
  EXPECT_TRUE(tiny_grammars().allows(*constraint, stop));
  EXPECT_FALSE(constraint->accept(b));
  constraint->rollback(2);
  EXPECT_TRUE(tiny_grammars().allows(*constraint, b));
  EXPECT_FALSE(constraint->accept(-1));
  EXPECT_FALSE(constraint->accept(1 << 30));
}

TEST(Grammar, the_grammar_begins_after_reasoning) {
  const auto token = [](const char* text) { return *tiny().token_to_id(text); };
  const GrammarSpec spec{.kind = Kind::kChoice, .choices = {"a", "b"}};
  const auto constraint = tiny_grammars().constrain(spec, /*after_reasoning=*/true);
  EXPECT_TRUE(tiny_grammars().allows(*constraint, token("x")));
  for (const char* text : {"x", "y", "</think>"}) EXPECT_TRUE(constraint->accept(token(text)));
  EXPECT_FALSE(tiny_grammars().allows(*constraint, token("x")));
  EXPECT_FALSE(constraint->accept(token("x")));
  EXPECT_TRUE(constraint->accept(token("a")));
  constraint->rollback(2);  // before </think> again
  EXPECT_TRUE(constraint->accept(token("x")));
  EXPECT_TRUE(constraint->accept(token("</think>")));
  EXPECT_FALSE(constraint->accept(token("x")));
  EXPECT_TRUE(constraint->accept(token("b")));
}

TEST(Grammar, an_answer_ends_in_its_reasoning_only_where_nothing_is_demanded) {
  for (const bool demanded : {false, true}) {
    const auto constraint = tiny_grammars().constrain(
        {.kind = Kind::kToolCalls, .tools = tools(), .at_least_one = demanded}, true);
    EXPECT_EQ(tiny_grammars().allows(*constraint, tiny_grammars().stop_id), !demanded);
    EXPECT_EQ(constraint->accept(tiny_grammars().stop_id), !demanded);
  }
}

TEST(Grammar, a_call_ends_reasoning) {
  const auto token = [](const char* text) { return *tiny().token_to_id(text); };
  const GrammarSpec spec{.kind = Kind::kToolCalls, .tools = tools()};
  const auto constraint = tiny_grammars().constrain(spec, /*after_reasoning=*/true);
  EXPECT_TRUE(constraint->accept(token("x")));
  EXPECT_TRUE(constraint->accept(token("<tool_call>")));
  EXPECT_FALSE(constraint->accept(token("x")));
  EXPECT_TRUE(constraint->accept(token("f")));
  constraint->rollback(2);
  EXPECT_TRUE(constraint->accept(token("x")));
  EXPECT_TRUE(constraint->accept(token("</think>")));
  EXPECT_FALSE(constraint->accept(token("x")));
}

TEST(Grammar, rolled_back_tokens_leave_no_trace) {
  Random random(6);
  for (const bool after_reasoning : {false, true}) {
    const GrammarSpec spec{.kind = Kind::kJsonSchema, .text = kSchemas[0]};
    const auto constraint = tiny_grammars().constrain(spec, after_reasoning);
    std::vector<TokenId> accepted;
    for (int step = 0; step < 150; ++step) {
      if (random.below(4) == 0) {
        const auto count = random.below(static_cast<std::uint32_t>(accepted.size()) + 1) % 6;
        constraint->rollback(static_cast<int>(count));
        accepted.resize(accepted.size() - count);
      } else if (!tiny_grammars().ends(*constraint)) {
        const TokenId token = accepted.size() == 7 && after_reasoning
                                  ? *tiny().token_to_id("</think>")
                                  : tiny_grammars().random_token(*constraint, random, 0.3);
        ASSERT_TRUE(constraint->accept(token));
        accepted.push_back(token);
      }
      const auto fresh = tiny_grammars().constrain(spec, after_reasoning);
      for (const TokenId token : accepted) ASSERT_TRUE(fresh->accept(token));
      std::vector<std::uint32_t> bits(tiny_grammars().num_words()), expected(bits.size());
      ASSERT_EQ(constraint->fill_mask(bits, kMaxMaskWork),
                fresh->fill_mask(expected, kMaxMaskWork));
      ASSERT_EQ(bits, expected);
    }
  }
}

TEST(Grammar, markers_and_special_tokens_are_no_part_of_json) {
  const auto constraint = tiny_grammars().constrain({.kind = Kind::kJsonObject});
  const std::vector<TokenId> begin = tiny().encode("{\"a\":\"x").value();
  for (const TokenId token : begin) constraint->accept(token);
  for (const char* text : {"<tool_call>", "<think>", "<|user|>", "</arg_value>"})
    EXPECT_FALSE(tiny_grammars().allows(*constraint, *tiny().token_to_id(text))) << text;
  EXPECT_FALSE(constraint->accept(*tiny().token_to_id("<tool_call>")));
  EXPECT_FALSE(constraint->accept(tiny_grammars().vocab_size - 1));  // no token of the tokenizer
}

TEST(Grammar, tokens_can_be_forbidden) {
  const TokenId a = *tiny().token_to_id("a"), b = *tiny().token_to_id("b");
  std::vector<std::uint32_t> bits(tiny_grammars().num_words());
  const auto alone = forbid_tokens({a});
  EXPECT_EQ(alone->fill_mask(bits, kMaxMaskWork), Next::kMasked);
  EXPECT_FALSE(alone->accept(a));
  EXPECT_TRUE(alone->accept(b));
  EXPECT_TRUE(tiny_grammars().allows(*alone, b));
  EXPECT_FALSE(tiny_grammars().allows(*alone, a));
  const auto around =
      forbid_tokens({a}, tiny_grammars().constrain({.kind = Kind::kRegex, .text = "[ab]"}));
  EXPECT_FALSE(tiny_grammars().allows(*around, a));
  EXPECT_FALSE(around->accept(a));
  EXPECT_TRUE(around->accept(b));
  EXPECT_TRUE(tiny_grammars().ends(*around));
  around->rollback(1);
  EXPECT_FALSE(tiny_grammars().ends(*around));
}

// Each rule can be split in as many ways as there are places to split it.
GrammarSpec ambiguous(int depth) {
  std::string text = "root ::= r0\n";
  for (int i = 0; i < depth; ++i)
    text += str("r", i, " ::= r", i + 1, " | r", i + 1, " r", i + 1, "\n");
  return {.kind = Kind::kEbnf, .text = text + str("r", depth, " ::= [a-z ]+\n")};
}

// After how many tokens the masks of `spec` are given up.
int tokens_until_given_up(const GrammarSpec& spec, std::int64_t max_work) {
  const auto constraint = tiny_grammars().constrain(spec);
  std::vector<std::uint32_t> bits(tiny_grammars().num_words());
  int count = 0;
  for (; count < 100000; ++count) {
    if (constraint->fill_mask(bits, max_work) == Next::kGivenUp) break;
    EXPECT_TRUE(constraint->accept(*tiny().token_to_id("a")));
  }
  return count;
}

TEST(Grammar, ambiguous_grammars_are_given_up_always_at_the_same_token) {
  for (const int depth : {12, 20, 40}) {
    const int count = tokens_until_given_up(ambiguous(depth), kMaxMaskWork);
    EXPECT_GT(count, 0);
    EXPECT_LT(count, 1000);
    EXPECT_EQ(tokens_until_given_up(ambiguous(depth), kMaxMaskWork), count);
    EXPECT_LE(tokens_until_given_up(ambiguous(depth), kQuickMaskWork), count);
  }
}

TEST(Grammar, a_mask_that_was_given_up_has_changed_nothing) {
  const GrammarSpec specs[] = {
      {.kind = Kind::kJsonSchema, .text = R"({"type":"string","minLength":3,"maxLength":9})"},
      {.kind = Kind::kJsonSchema, .text = kSchemas[0]},
      ambiguous(5),
      {.kind = Kind::kToolCalls, .tools = tools()}};
  Random random(11);
  for (const GrammarSpec& spec : specs) {
    const auto constraint = tiny_grammars().constrain(spec),
               fresh = tiny_grammars().constrain(spec);
    std::vector<std::uint32_t> bits(tiny_grammars().num_words()), expected(bits.size());
    int given_up = 0;
    for (int step = 0; step < 40; ++step) {
      for (const std::int64_t work : {0, 10, 100, 1000})
        given_up += constraint->fill_mask(bits, work) == Next::kGivenUp;
      const Next next = constraint->fill_mask(bits, kMaxMaskWork);
      ASSERT_EQ(next, fresh->fill_mask(expected, kMaxMaskWork));
      ASSERT_EQ(bits, expected);
      if (next != Next::kMasked) break;
      const TokenId token = tiny_grammars().random_token(*fresh, random, 0.1);
      ASSERT_TRUE(fresh->accept(token));
      ASSERT_TRUE(constraint->accept(token));
    }
    EXPECT_GT(given_up, 0);
  }
}

TEST(Grammar, a_token_that_costs_too_much_ends_the_masks) {
  const auto constraint = tiny_grammars().constrain(ambiguous(40));
  std::vector<std::uint32_t> bits(tiny_grammars().num_words());
  const TokenId a = *tiny().token_to_id("a");
  for (int i = 0; i < 3000; ++i) EXPECT_TRUE(constraint->accept(a));
  EXPECT_EQ(constraint->fill_mask(bits, kMaxMaskWork), Next::kGivenUp);
  constraint->rollback(2999);
  EXPECT_EQ(constraint->fill_mask(bits, kMaxMaskWork), Next::kGivenUp);
}

TEST(Grammar, what_matches_no_text_is_refused) {
  for (const char* schema :
       {R"({"$ref":"#"})",
        R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})"})
    EXPECT_EQ(error_of({.kind = Kind::kJsonSchema, .text = schema}), "the grammar matches no text");
  EXPECT_EQ(error_of({.kind = Kind::kEbnf, .text = "root ::= \"a\" root"}), "");
}

TEST(Grammar, what_cannot_be_compiled_is_said) {
  const auto schema = [](const char* text) {
    return error_of({.kind = Kind::kJsonSchema, .text = text});
  };
  EXPECT_EQ(schema("{"), "the JSON schema: line 1, column 2: incomplete JSON");
  EXPECT_EQ(schema(R"({"not":{}})"), "the JSON schema: \"not\" is not supported");
  const std::string step = schema(R"({"type":"number","multipleOf":0.5})");
  EXPECT_TRUE(step.ends_with("multipleOf is not supported for type:number")) << step;
  EXPECT_NE(schema(R"({"type":"string","pattern":"a","minLength":3})").find("minLength"),
            std::string::npos);
  EXPECT_NE(schema(R"({"oneOf":[{"type":"number"},{"type":"integer"}]})").find("oneOf"),
            std::string::npos);
  EXPECT_NE(schema(R"({"type":"nothing"})").find("nothing"), std::string::npos);
  EXPECT_NE(schema("false").find("false"), std::string::npos);
  const auto expression = [](const char* text) {
    return error_of({.kind = Kind::kRegex, .text = text});
  };
  EXPECT_NE(expression("(a").find("parenthesis"), std::string::npos);
  EXPECT_NE(expression("(?=a)b").find("ookahead"), std::string::npos);
  EXPECT_NE(expression("a\\bb").find("boundary"), std::string::npos);
  EXPECT_NE(expression("(a)\\1").find("ackreference"), std::string::npos);
  EXPECT_NE(expression("a^b"), "");
  EXPECT_NE(expression("a)(b").find("position 2: Unmatched ')'"), std::string::npos);
  EXPECT_NE(expression("^ab[$").find("position 6"), std::string::npos);
  EXPECT_NE(schema(R"({"type":"string","pattern":"a)(b"})"), "");
  EXPECT_NE(error_of({.kind = Kind::kEbnf, .text = "root ::= nothing"}), "");
  EXPECT_NE(error_of({.kind = Kind::kEbnf, .text = "a ::= \"b\""}), "");
  std::string optional = "root ::= ";
  for (int i = 0; i < 101; ++i) optional += "\"a\"? ";
  EXPECT_EQ(error_of({.kind = Kind::kEbnf, .text = optional}),
            "a rule has more than 100 optional parts");
  EXPECT_EQ(error_of({.kind = Kind::kChoice}), "there is no choice");
  EXPECT_EQ(error_of({.kind = Kind::kRegex, .text = std::string(20000, 'a')}),
            "the expression has 20000 bytes, over the limit of 16384");
  EXPECT_EQ(error_of({.kind = Kind::kRegex, .text = "a\xff"}), "the expression is not UTF-8");
}

TEST(Grammar, optional_parts_of_ebnf_are_none_within_literals_classes_and_comments) {
  const auto repeated = [](std::string_view part, int count) {
    std::string text;
    while (count-- > 0) text += part;
    return text;
  };
  const auto error = [](const std::string& text) {
    return error_of({.kind = Kind::kEbnf, .text = text});
  };
  for (const char* part :
       {"\"a?\" ", "[?*{0] ", "[\\]?] ", "\"\\\"?\" ", "\"a\" # why?\n", "\"a\"{ 2 } "})
    EXPECT_EQ(error("root ::= " + repeated(part, 101)), "") << part;
  for (const char* part : {"\"a\"? \"::=\" ", "\"a\"* [::=] ", "\"a\"{0,1} # ::=\n",
                           "\"a\"{ 0 , 1 } ", "\"a\"{ # \n0,1} ", "[\"]? [#]? ", "# \r\"a\"? "})
    EXPECT_EQ(error("root ::= " + repeated(part, 101)), "a rule has more than 100 optional parts")
        << part;
  for (const char* text : {"root[capture=\"]\"] ::= \"a\"", "root ::= a[\"]\na ::= \"b\""})
    EXPECT_EQ(
        error(text),
        "attributes of a rule cannot hold texts; a class with a quote needs a blank before it")
        << text;
  EXPECT_EQ(error("root[lazy] ::= a [\"] a[x]\na ::= \"b\""), "");
}

TEST(Grammar, what_is_said_is_utf8) {
  const std::string error = error_of({.kind = Kind::kEbnf, .text = "\xe2\x82\xac"});
  EXPECT_NE(error, "");
  EXPECT_TRUE(is_valid_utf8(error)) << error;
}

// A sequence of random tokens that the grammar allows, and the masks on the way.
std::vector<std::vector<std::uint32_t>> masks_of(
    const std::shared_ptr<const CompiledGrammar>& grammar) {
  const auto constraint = tiny_grammars().compiler.constrain(grammar, false);
  Random random(3);
  std::vector<std::vector<std::uint32_t>> masks;
  for (int step = 0; step < 40; ++step) {
    masks.emplace_back(tiny_grammars().num_words());
    TestGrammars::fill(*constraint, masks.back());
    const TokenId token = tiny_grammars().random_token(*constraint, random, 0.2);
    EXPECT_TRUE(constraint->accept(token));
    if (token == tiny_grammars().stop_id) break;
  }
  return masks;
}

TEST(Grammar, one_that_was_handed_over_means_the_same) {
  const ToolSpec tool = {"f", parse_json(kSchemas[0]).value()};
  for (const GrammarSpec& spec :
       {GrammarSpec{.kind = Kind::kJsonObject},
        GrammarSpec{.kind = Kind::kJsonSchema, .text = kSchemas[0]},
        GrammarSpec{.kind = Kind::kRegex, .text = "[a-f]{2,9}(x|yz)*"},
        GrammarSpec{.kind = Kind::kEbnf, .text = "root ::= \"a\" root | \"b\""},
        GrammarSpec{.kind = Kind::kChoice, .choices = {"yes", "no"}},
        GrammarSpec{.kind = Kind::kToolCalls, .tools = {tool}},
        GrammarSpec{.kind = Kind::kStructuralTag, .text = R"({"format":{"type":"tag","begin":"<a>",
                              "content":{"type":"any_text"},"end":"</a>"}})"}}) {
    const auto grammar = tiny_grammars().compiler.compile(spec).value();
    const std::string bytes = tiny_grammars().compiler.dump(*grammar);
    const auto loaded = tiny_grammars().compiler.load(bytes);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(masks_of(loaded.value()), masks_of(grammar)) << dump_spec(spec);
  }
}

TEST(Grammar, bytes_that_are_none_are_refused) {
  const auto grammar = tiny_grammars().compiler.compile({.kind = Kind::kJsonObject}).value();
  const std::string bytes = tiny_grammars().compiler.dump(*grammar);
  for (std::size_t size = 0; size < bytes.size(); size += size < 100 ? 1 : 997)
    EXPECT_FALSE(tiny_grammars().compiler.load(bytes.substr(0, size)).ok()) << size;
  EXPECT_FALSE(tiny_grammars().compiler.load(bytes + "x").ok());
  EXPECT_FALSE(tiny_grammars().compiler.load("\x7f" + bytes.substr(1)).ok());
}

TEST(Grammar, threads_may_compile_and_constrain_together) {
  constexpr const char* kExpressions[] = {"[a-z]{3}", "x+y", "a|bc"};
  std::vector<std::thread> threads;
  std::vector<std::vector<Walk>> walks(4);
  for (std::size_t i = 0; i < walks.size(); ++i) {
    threads.emplace_back([&, i] {
      Random random(100 + i);
      for (const char* text : kExpressions)
        walks[i].push_back(tiny_grammars().walk({.kind = Kind::kRegex, .text = text}, random));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<Walk>& of_thread : walks) {
    for (std::size_t k = 0; k < std::size(kExpressions); ++k) {
      const Walk& walk = of_thread.at(k);
      EXPECT_TRUE(!walk.complete || std::regex_match(walk.text, std::regex(kExpressions[k])));
    }
  }
}

TEST(Grammar, a_large_vocabulary) {
  const Tokenizer large = large_tokenizer(150000);
  const TestGrammars big(large, 151552);
  Random random(7);
  int complete = 0;
  for (int round = 0; round < 20; ++round) {
    const GrammarSpec spec{.kind = Kind::kJsonSchema, .text = kSchemas[0]};
    const Walk walk = big.walk(spec, random);
    if (!walk.complete) continue;
    ++complete;
    const Result<Json> value = parse_json(walk.text);
    ASSERT_TRUE(value.ok()) << walk.text;
    const Json schema = parse_json(kSchemas[0]).value();
    EXPECT_EQ(why_invalid(value.value(), schema, schema), "") << walk.text;
  }
  EXPECT_GT(complete, 0);
}

}  // namespace
}  // namespace glint
