#include <gtest/gtest.h>

#include "base/random.h"
#include "base/str.h"
#include "text/answer/delta_parser.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/schema_testing.h"

namespace glint {
namespace {

using Kind = GrammarSpec::Kind;

const Tokenizer& tiny() { return tiny_grammars().tokenizer; }

TEST(GrammarCalls, calls_are_valid_under_their_functions_schemas) {
  Random random(4);
  int num_calls = 0;
  for (int round = 0; round < 150; ++round) {
    const GrammarSpec spec{.kind = Kind::kToolCalls,
                           .tools = weather_tools(),
                           .at_least_one = random.below(3) > 0,
                           .parallel = random.below(2) > 0};
    const Walk walk = tiny_grammars().walk(spec, random);
    if (!walk.complete) continue;
    DeltaParser parser(tiny(), {.tools = weather_tools()});
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
      const auto tool = std::find_if(weather_tools().begin(), weather_tools().end(),
                                     [&](const ToolSpec& t) { return t.name == call.name; });
      ASSERT_NE(tool, weather_tools().end()) << walk.text;
      const Json arguments = parse_json(call.arguments).value();
      if (tool->parameters.is_null()) continue;
      EXPECT_EQ(why_invalid(arguments, tool->parameters, tool->parameters), "") << walk.text;
    }
  }
  EXPECT_GT(num_calls, 50);
}

TEST(GrammarCalls, arguments_are_read_as_their_schemas_say) {
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

TEST(GrammarCalls, arguments_may_be_described_by_reference_and_in_parts) {
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

TEST(GrammarCalls, an_answer_is_calls_or_in_a_format) {
  Random random(7);
  const GrammarSpec spec{.kind = Kind::kToolCalls,
                         .tools = weather_tools(),
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
    DeltaParser parser(tiny(), {.tools = weather_tools(), .calls_first = true});
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

TEST(GrammarCalls, what_cannot_be_said_of_arguments_is_left_open_where_it_may_be) {
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

TEST(GrammarCalls, the_least_characters_of_an_argument_are_none_of_the_marker_behind_it) {
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

TEST(GrammarCalls, an_argument_of_limited_length_is_any_text_without_its_end) {
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

TEST(GrammarCalls, a_pattern_of_an_argument_matches_no_marker) {
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

TEST(GrammarCalls, strings_of_json_hold_no_end_of_an_argument_that_may_be_a_text) {
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

TEST(GrammarCalls, strings_of_json_may_hold_the_markers_of_calls) {
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

TEST(GrammarCalls, references_within_arguments_lead_to_their_function) {
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

TEST(GrammarCalls, a_function_without_parameters_takes_none) {
  for (const char* parameters : {"null", R"({"type":"object","properties":{}})"}) {
    Random random(5);
    const GrammarSpec spec{.kind = Kind::kToolCalls,
                           .tools = {{"f", parse_json(parameters).value()}},
                           .parallel = false};
    EXPECT_EQ(tiny_grammars().walk(spec, random).text, "<tool_call>f</tool_call>");
  }
}

TEST(GrammarCalls, one_function_can_be_forced) {
  Random random(5);
  const GrammarSpec spec{
      .kind = Kind::kToolCalls, .tools = {weather_tools()[2]}, .parallel = false};
  const Walk walk = tiny_grammars().walk(spec, random);
  EXPECT_TRUE(walk.complete);
  EXPECT_EQ(walk.text, "<tool_call>get</tool_call>");
}

TEST(GrammarCalls, an_answer_ends_in_its_reasoning_only_where_nothing_is_demanded) {
  for (const bool demanded : {false, true}) {
    const auto constraint = tiny_grammars().constrain(
        {.kind = Kind::kToolCalls, .tools = weather_tools(), .at_least_one = demanded}, true);
    EXPECT_EQ(tiny_grammars().allows(*constraint, tiny_grammars().stop_id), !demanded);
    EXPECT_EQ(constraint->accept(tiny_grammars().stop_id), !demanded);
  }
}

TEST(GrammarCalls, a_call_ends_reasoning) {
  const auto token = [](const char* text) { return *tiny().token_to_id(text); };
  const GrammarSpec spec{.kind = Kind::kToolCalls, .tools = weather_tools()};
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

}  // namespace
}  // namespace glint
