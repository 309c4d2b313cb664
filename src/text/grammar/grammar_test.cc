#include "text/grammar/grammar.h"

#include <gtest/gtest.h>

#include <regex>
#include <thread>

#include "base/random.h"
#include "base/str.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/schema_testing.h"

namespace glint {
namespace {

using Kind = GrammarSpec::Kind;
using Next = TokenConstraint::Next;

const Tokenizer& tiny() { return tiny_grammars().tokenizer; }

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

TEST(Grammar, texts_of_a_format_are_of_it) {
  const auto may_be = [](const char* format, const char* text) {
    const std::string schema = str(R"({"type":"string","format":")", format, R"("})");
    return allowed({.kind = Kind::kJsonSchema, .text = schema}, str('"', text, '"'));
  };
  for (const char* date : {"2026-02-28", "2024-02-29", "2000-02-29", "1999-12-31", "2026-06-30"})
    EXPECT_TRUE(may_be("date", date)) << date;
  for (const char* date : {"2026-02-29", "1900-02-29", "2026-06-31", "2026-13-01", "2026-01-00"})
    EXPECT_FALSE(may_be("date", date)) << date;
  EXPECT_TRUE(may_be("date-time", "2026-06-30T23:59:59.25+02:00"));
  EXPECT_FALSE(may_be("date-time", "2026-06-31T23:59:59Z"));
  for (const char* address : {"0.0.0.0", "255.249.199.90"})
    EXPECT_TRUE(may_be("ipv4", address)) << address;
  for (const char* address : {"1.2.3.097", "256.1.1.1", "1.2.3"})
    EXPECT_FALSE(may_be("ipv4", address)) << address;
  for (const char* address :
       {"::", "::1", "1::", "2001:db8::8a2e:370:7334", "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7::", "1::3:4:5:6:7:8", "::192.0.2.33", "::ffff:192.0.2.33",
        "64:ff9b::192.0.2.33", "1:2:3:4:5::1.2.3.4", "1:2:3:4:5:6:1.2.3.4"})
    EXPECT_TRUE(may_be("ipv6", address)) << address;
  for (const char* address : {"::1.2.3.04", "::ffff:01.2.3.4", "64:ff9b::1.2.003.4", "1:2:3", ":",
                              "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6::1.2.3.4"})
    EXPECT_FALSE(may_be("ipv6", address)) << address;
  EXPECT_TRUE(may_be("time", "23:59:59.25+02:00"));
  for (const char* time : {"15:45:60Z", "24:00:00Z", "15:45:59"})
    EXPECT_FALSE(may_be("time", time)) << time;
  EXPECT_TRUE(may_be("email", "a.b@c-d.org"));
  EXPECT_FALSE(may_be("email", "a@b"));
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
  EXPECT_EQ(most_blanks({.kind = Kind::kToolCalls, .tools = weather_tools()},
                        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>a</arg_value>"
                        "<arg_key>unit</arg_key><arg_value>celsius</arg_value>"
                        "<arg_key>tags</arg_key><arg_value>["),
            20);
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
      {.kind = Kind::kToolCalls, .tools = weather_tools()}};
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
  EXPECT_EQ(
      schema(R"({"oneOf":[{"type":"number"},{"type":"integer"}]})"),
      "oneOf with overlapping or non-provably-disjoint branches cannot be represented exactly");
  EXPECT_NE(schema(R"({"type":"nothing"})").find("nothing"), std::string::npos);
  EXPECT_NE(schema("false").find("false"), std::string::npos);
  const auto expression = [](const char* text) {
    return error_of({.kind = Kind::kRegex, .text = text});
  };
  EXPECT_NE(expression("(a").find("parenthesis"), std::string::npos);
  EXPECT_NE(expression("(?=a)b").find("ookahead"), std::string::npos);
  EXPECT_NE(expression("a\\bb").find("boundary"), std::string::npos);
  EXPECT_NE(expression("(a)\\1").find("ackreference"), std::string::npos);
  for (const char* anchored : {"a^b", "a$b", "^(a$|b)"})
    EXPECT_EQ(expression(anchored).find("gnor"), std::string::npos) << expression(anchored);
  EXPECT_NE(expression("a^b"), "");
  EXPECT_EQ(expression("*a"), "the expression cannot be read: Expect element, but got *");
  EXPECT_EQ(expression("a{3,1}"),
            "the expression cannot be read: Lower bound is larger than upper bound: 3 > 1");
  const Json parameters = parse_json(R"({"type":"object","properties":{
      "step":{"type":"number","multipleOf":0.5}}})")
                              .value();
  const std::string tools =
      error_of({.kind = Kind::kToolCalls, .tools = {{"f", Json::Object{}}, {"g", parameters}}});
  EXPECT_TRUE(tools.starts_with("parameters of function \"g\": ")) << tools;
  EXPECT_NE(expression("a)(b").find("position 2: Unmatched ')'"), std::string::npos);
  EXPECT_NE(expression("^ab[$").find("position 6"), std::string::npos);
  for (const char* pattern : {"a)(b", "[", "^[a$", "x[^", "*", "a|+b", "?", "{3}", "\\", "a\\"}) {
    const Json text = Json::Object{{"type", "string"}, {"pattern", pattern}};
    EXPECT_NE(schema(dump_json(text).c_str()), "") << pattern;
    const Json call = Json::Object{{"type", "object"}, {"properties", Json::Object{{"a", text}}}};
    EXPECT_NE(error_of({.kind = Kind::kToolCalls, .tools = {{"f", call}}}), "") << pattern;
  }
  EXPECT_NE(error_of({.kind = Kind::kEbnf, .text = "root ::= nothing"}), "");
  EXPECT_NE(error_of({.kind = Kind::kEbnf, .text = "a ::= \"b\""}), "");
  EXPECT_TRUE(error_of({.kind = Kind::kEbnf, .text = "root ::= "}).ends_with("but got the end"));
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
