#include "text/grammar/grammar_schema.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

// The schema as it is prepared, or what is wrong with it.
std::string prepared(const char* schema) {
  Json json = parse_json(schema).value();
  const Status status = prepare_schema(json);
  return status.ok() ? dump_json(json) : status.error().message;
}

TEST(GrammarSchema, what_nothing_is_said_of_may_be_anything) {
  EXPECT_EQ(prepared(R"({"type":"object"})"), R"({"type":"object","additionalProperties":true})");
  EXPECT_EQ(prepared(R"({"type":"array"})"), R"({"type":"array","items":{}})");
  EXPECT_EQ(prepared(R"({"type":"object","properties":{"a":true}})"),
            R"({"type":"object","properties":{"a":true}})");
  EXPECT_EQ(prepared("{}"), "{}");
  EXPECT_EQ(prepared("true"), "true");
}

TEST(GrammarSchema, keywords_imply_their_type) {
  EXPECT_EQ(prepared(R"({"minimum":3})"), R"({"minimum":3,"type":"number"})");
  EXPECT_EQ(prepared(R"({"minLength":3,"maximum":1})"),
            R"({"minLength":3,"maximum":1,"type":["number","string"]})");
  EXPECT_EQ(prepared(R"({"required":["a"]})"),
            R"({"required":["a"],"type":"object","additionalProperties":true,)"
            R"("properties":{"a":{}}})");
}

TEST(GrammarSchema, types_hold_for_values_and_alternatives) {
  EXPECT_EQ(prepared(R"({"type":"string","enum":["a",1]})"), R"({"type":"string","enum":["a"]})");
  EXPECT_EQ(prepared(R"({"type":"number","enum":[1,2.5]})"), R"({"type":"number","enum":[1,2.5]})");
  EXPECT_EQ(prepared(R"({"type":"integer","anyOf":[{"minimum":1}]})"),
            R"({"type":"integer","anyOf":[{"minimum":1,"type":"integer"}]})");
  EXPECT_EQ(prepared(R"({"type":"string","enum":[1]})"),
            "no value of \"enum\" is of the \"type\" beside it");
  EXPECT_EQ(prepared(R"({"type":"string","const":1})"),
            "\"const\" is not of the \"type\" beside it");
  EXPECT_NE(prepared(R"({"type":"string","anyOf":[{"type":"null"}]})").find("not supported"),
            std::string::npos);
}

TEST(GrammarSchema, alternatives_that_exclude_each_other_are_any_of_them) {
  EXPECT_EQ(prepared(R"({"oneOf":[{"type":"integer","minimum":3},{"type":"string"}]})"),
            R"({"anyOf":[{"type":"integer","minimum":3},{"type":"string"}]})");
  // Pydantic's union: a tag that has a default is not required there.
  const auto shapes = [](const char* tagged, const char* required, const char* one_of) {
    return str(R"({"$defs":{"A":{"type":"object","properties":{"k":{"const":"a"}},"required":)",
               required, R"(},"B":{"type":"object","properties":{"k":{"enum":["b"]}},)",
               R"("required":["k"]}},")", one_of,
               R"(":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}])", tagged, "}");
  };
  const char* tag = R"(,"discriminator":{"propertyName":"k"})";
  EXPECT_EQ(prepared(shapes("", R"(["k"])", "oneOf").c_str()), shapes("", R"(["k"])", "anyOf"));
  EXPECT_EQ(prepared(shapes(tag, "[]", "oneOf").c_str()), shapes(tag, R"(["k"])", "anyOf"));
  EXPECT_EQ(prepared(shapes("", "[]", "oneOf").c_str()), shapes("", "[]", "oneOf"));
  for (const char* overlap :
       {R"({"oneOf":[{"type":"number"},{"type":"integer"}]})", R"({"oneOf":[{},{"type":"null"}]})",
        R"({"oneOf":[{"enum":["a"]},{"const":"a"}]})", R"({"oneOf":[true,{"type":"null"}]})"})
    EXPECT_EQ(prepared(overlap), overlap);
}

// Zod writes its own pattern beside each format, Pydantic limits of length beside that of URLs.
TEST(GrammarSchema, a_format_beside_other_rules_requires_nothing) {
  EXPECT_EQ(prepared(R"({"type":"string","format":"uuid","pattern":"^a$"})"),
            R"x({"type":"string","format":"","pattern":"(?:a)"})x");
  EXPECT_EQ(prepared(R"({"type":"string","format":"uri","maxLength":9})"),
            R"({"type":"string","format":"","maxLength":9})");
}

TEST(GrammarSchema, lengths_that_a_format_has_by_itself_are_left_out) {
  EXPECT_EQ(prepared(R"({"type":"string","format":"uri","minLength":1})"),
            R"({"type":"string","format":"uri"})");
  EXPECT_EQ(prepared(R"({"type":"string","minLength":36,"format":"uuid","maxLength":40})"),
            R"({"type":"string","format":"uuid"})");
  for (const char* kept : {R"({"type":"string","format":"date","maxLength":10})",
                           R"({"type":"string","format":"email","minLength":5})",
                           R"({"type":"string","format":"date-time","minLength":20})"})
    EXPECT_NE(prepared(kept).find("pattern"), std::string::npos) << kept;
}

TEST(GrammarSchema, multiples_and_first_items_are_what_the_compiler_takes) {
  EXPECT_EQ(prepared(R"({"type":"integer","minimum":0,"multipleOf":1})"),
            R"({"type":"integer","minimum":0})");
  EXPECT_EQ(prepared(R"({"items":{"type":"integer","maximum":9,"multipleOf":3}})"),
            "at \"/items\": \"multipleOf\" beside \"maximum\" is not supported");
  EXPECT_EQ(prepared(R"({"prefixItems":[{"type":"null"},{"type":"null"}],"maxItems":1})"),
            R"({"prefixItems":[{"type":"null"}],"maxItems":1,"type":"array"})");
}

TEST(GrammarSchema, properties_that_are_counted_differ) {
  EXPECT_EQ(prepared(R"({"properties":{"a":{}},"minProperties":2})"),
            "\"minProperties\" is 2, more than the \"properties\" that are described");
  EXPECT_EQ(prepared(R"({"additionalProperties":{},"minProperties":2})"),
            "\"minProperties\" is 2, and names that are not \"required\" may come twice");
  EXPECT_NE(prepared(R"({"properties":3,"minProperties":1})").find("properties"),
            std::string::npos);
  EXPECT_EQ(prepared(R"({"propertyNames":{"enum":["a","b"]},"minProperties":2})"),
            R"({"minProperties":2,"type":"object","properties":{"a":{},"b":{}},)"
            R"("additionalProperties":false})");
}

TEST(GrammarSchema, a_pattern_of_characters_in_a_row_has_a_length) {
  EXPECT_EQ(prepared(R"({"type":"string","maxLength":64,"minLength":2,"pattern":"^[a-z]\\w*$"})"),
            R"x({"type":"string","pattern":"(?:[a-z]\\w{1,63})"})x");
}

TEST(GrammarSchema, limits_beyond_64_bits_are_brought_within) {
  EXPECT_EQ(prepared(R"({"type":"integer","minimum":0,"maximum":18446744073709551615})"),
            R"({"type":"integer","minimum":0,"maximum":9223372036854775807})");
  EXPECT_EQ(prepared(R"({"type":"integer","minimum":-1e30})"),
            R"({"type":"integer","minimum":-9223372036854775807})");
  EXPECT_EQ(prepared(R"({"type":"number","maximum":1e400})"),
            R"({"type":"number","maximum":1.7976931348623157e+308})");
  EXPECT_EQ(prepared(R"({"type":"integer","minimum":1e400})"),
            "\"minimum\" is 1e400, beyond numbers of 64 bits");
  EXPECT_EQ(prepared(R"({"enum":[1,{"a":12345678901234567890}]})"),
            "\"enum\" holds a number beyond 64 bits");
}

TEST(GrammarSchema, fractional_limits_of_whole_numbers_are_the_next_whole_ones) {
  EXPECT_EQ(prepared(R"({"type":"integer","minimum":0.5,"maximum":-0.5})"),
            R"({"type":"integer","minimum":1,"maximum":-1})");
  EXPECT_EQ(prepared(R"({"type":"integer","exclusiveMinimum":0.5,"exclusiveMaximum":2.5})"),
            R"({"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":3})");
  EXPECT_EQ(prepared(R"({"type":["integer","null"],"minimum":2.0,"maximum":1e3})"),
            R"({"type":["integer","null"],"minimum":2,"maximum":1000})");
  EXPECT_EQ(prepared(R"({"type":"number","minimum":0.5})"), R"({"type":"number","minimum":0.5})");
}

TEST(GrammarSchema, numbers_between_limits_have_six_decimals) {
  constexpr const char* kNone = "at \"/items\": no number of six decimals is between its limits";
  for (const char* limits :
       {R"("exclusiveMinimum":0,"maximum":1e-7)", R"("minimum":1e-7,"exclusiveMaximum":1e-6)",
        R"("minimum":0.1234561,"maximum":0.1234569)", R"("minimum":-1.5e-6,"maximum":-1.1e-6)",
        R"("exclusiveMinimum":0.3,"exclusiveMaximum":0.300001)", R"("minimum":2,"maximum":1)",
        R"("minimum":0,"exclusiveMinimum":0.5,"maximum":0.5)"})
    EXPECT_EQ(prepared(str(R"({"items":{"type":"number",)", limits, "}}").c_str()), kNone)
        << limits;
  for (const char* limits :
       {R"("exclusiveMinimum":0,"maximum":1e-6)", R"("minimum":0.000007,"maximum":0.000007)",
        R"("minimum":0.3,"maximum":0.3)", R"("minimum":-1e-7,"maximum":1e-7)",
        R"("minimum":-2e-6,"exclusiveMaximum":-1e-6)", R"("exclusiveMinimum":1e-7)",
        R"("minimum":1e300,"maximum":1e300)", R"("minimum":123456.789012,"maximum":123456.789012)"})
    EXPECT_EQ(prepared(str(R"({"type":"number",)", limits, "}").c_str()).front(), '{') << limits;
}

TEST(GrammarSchema, properties_of_patterns_are_the_only_ones) {
  for (const char* others : {"", R"(,"additionalProperties":false)"})
    EXPECT_EQ(
        prepared(str(R"({"type":"object","patternProperties":{"^a":true})", others, "}").c_str()),
        R"({"type":"object","patternProperties":{"^a":true}})");
}

TEST(GrammarSchema, patterns_of_names_that_may_meet_are_refused) {
  const auto error = [](const char* one, const char* other, const char* value) {
    const std::string text = prepared(
        str(R"({"patternProperties":{")", one, R"(":{},")", other, "\":", value, "}}").c_str());
    return text.front() == '{' ? "" : text;
  };
  EXPECT_EQ(error("^S_", "^I_", "true"), "");
  EXPECT_EQ(error("^ab+$", "^ac", "true"), "");
  EXPECT_EQ(error("^[ab]$", "b", "{}"), "");
  EXPECT_EQ(error("^[ab]$", "^b$", "true"),
            "\"patternProperties\": one name may match both \"^[ab]$\" and \"^b$\"; let them begin "
            "with other letters, as in \"^a_\" and \"^b_\"");
  for (const auto& [one, other] :
       {std::pair("^a", "b"), {"^a", "^ab"}, {"^a?b", "^b"}, {"^a|b", "^b"}, {"^.a", "^ba"}})
    EXPECT_NE(error(one, other, "true"), "") << one;
}

TEST(GrammarSchema, names_of_no_properties_demand_nothing) {
  EXPECT_EQ(prepared(R"({"propertyNames":{"minLength":2},"additionalProperties":false})"),
            R"({"additionalProperties":false,"type":"object"})");
}

TEST(GrammarSchema, schemas_that_all_hold_are_one) {
  EXPECT_EQ(prepared(R"({"allOf":[{"$ref":"#/x"},{"properties":{"b":{}},"required":["b"]}],)"
                     R"("x":{"type":"object","title":"A","properties":{"a":{"minimum":1}},)"
                     R"("required":["a"]}})"),
            R"({"type":"object","title":"A","properties":{"a":{"minimum":1,"type":"number"},)"
            R"("b":{}},"required":["a","b"],"x":{"type":"object","title":"A","properties":)"
            R"({"a":{"minimum":1}},"required":["a"]}})");
  // All descriptions of one property hold, and so do keywords beside "allOf".
  EXPECT_EQ(
      prepared(R"({"properties":{"a":{"minimum":1}},"allOf":[{"properties":{"a":)"
               R"({"maximum":2}},"additionalProperties":true}],"unevaluatedProperties":false})"),
      R"({"properties":{"a":{"minimum":1,"maximum":2,"type":"number"}},)"
      R"("additionalProperties":true,"unevaluatedProperties":false,"type":"object"})");
  EXPECT_EQ(prepared(R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})"),
            "\"pattern\" in two schemas of \"allOf\" is not supported");
  EXPECT_EQ(prepared(R"({"items":{"allOf":[{"items":{}},{"prefixItems":[true]}]}})"),
            "at \"/items\": \"items\" in two schemas of \"allOf\" is not supported");
  EXPECT_EQ(prepared(R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},)"
                     R"({"properties":{"b":{}}}]})"),
            "property \"b\" of one schema of \"allOf\" is not among those of another, which allows "
            "no others");
  EXPECT_EQ(prepared(R"({"allOf":[{},{"$ref":"#/x"}]})"),
            "there is no \"#/x\" in this schema to refer to");
  const std::string begin(79, 'y');
  EXPECT_EQ(prepared((R"({"allOf":[{},")" + begin + R"(yyyy"]})").c_str()),
            "\"allOf\" holds \"" + begin + "..., which no value fits");
  EXPECT_EQ(prepared(R"({"allOf":[{},false]})"), "\"allOf\" holds false, which no value fits");
  EXPECT_EQ(prepared(R"({"allOf":[{},{"$ref":"#"}]})"),
            "the schemas of \"allOf\" are too large, or refer to themselves");
}

TEST(GrammarSchema, keywords_beside_alternatives_hold_for_each) {
  EXPECT_EQ(prepared(R"({"type":"object","title":"T","properties":{"a":{},"b":{}},)"
                     R"("anyOf":[{"required":["a"]},{"required":["b"]}]})"),
            R"({"title":"T","anyOf":[{"type":"object","properties":{"a":{},"b":{}},)"
            R"("required":["a"]},{"type":"object","properties":{"a":{},"b":{}},)"
            R"("required":["b"]}]})");
  // A property may have any name.
  EXPECT_EQ(prepared(R"({"properties":{"default":{"allOf":[{"minimum":1},{"maximum":2}]}}})"),
            R"({"properties":{"default":{"minimum":1,"maximum":2,"type":"number"}},)"
            R"("type":"object"})");
}

// Zod's records of the values of an enum.
TEST(GrammarSchema, required_names_of_an_enum_are_properties) {
  EXPECT_EQ(prepared(R"({"type":"object","propertyNames":{"type":"string","enum":["a","b"]},)"
                     R"("additionalProperties":{"type":"null"},"required":["a"]})"),
            R"({"type":"object","additionalProperties":false,"required":["a"],)"
            R"("properties":{"a":{"type":"null"},"b":{"type":"null"}}})");
}

TEST(GrammarSchema, lists_of_values_that_differ_are_all_of_them) {
  EXPECT_EQ(prepared(R"({"uniqueItems":true,"items":{"$ref":"#/x"},"minItems":1,)"
                     R"("x":{"type":"string","enum":["a","b",1]}})"),
            R"({"x":{"type":"string","enum":["a","b",1]},)"
            R"("enum":[["a"],["b"],["a","b"],["b","a"]]})");
  EXPECT_EQ(prepared(R"({"uniqueItems":true,"items":{"type":"boolean"},"minItems":2})"),
            R"({"enum":[[true,false],[false,true]]})");
  EXPECT_EQ(prepared(R"({"uniqueItems":true,"maxItems":1})"),
            R"({"uniqueItems":false,"maxItems":1,"type":"array","items":{}})");
  EXPECT_EQ(prepared(R"({"uniqueItems":true,"items":{"enum":[1]},"minItems":2})"),
            "\"minItems\" are more than \"uniqueItems\" can be");
  EXPECT_NE(prepared(R"({"uniqueItems":true,"items":{"enum":[1,2,3,4,5,6,7]}})")
                .find("more than 2000 lists; \"maxItems\" makes them fewer"),
            std::string::npos);
  for (const char* items : {R"({"type":"string"})", R"({"enum":["a"],"minLength":1})", "true"})
    EXPECT_EQ(prepared(str(R"({"uniqueItems":true,"items":)", items, "}").c_str()),
              "\"uniqueItems\" is not supported, unless \"items\" are an \"enum\"");
}

TEST(GrammarSchema, lists_of_before_2020) {
  EXPECT_EQ(prepared(R"({"items":[{"type":"null"}],"additionalItems":{"type":"string"}})"),
            R"({"items":{"type":"string"},"additionalItems":{"type":"string"},"type":"array",)"
            R"("prefixItems":[{"type":"null"}]})");
}

TEST(GrammarSchema, what_is_not_supported_is_named_with_its_place) {
  EXPECT_EQ(prepared(R"({"not":{}})"), "\"not\" is not supported");
  EXPECT_EQ(prepared(R"({"properties":{"a":{"items":{"if":{}}}}})"),
            "at \"/properties/a/items\": \"if\" is not supported");
  EXPECT_EQ(prepared(R"({"$defs":{"a":{"contains":{}}}})"),
            "at \"/$defs/a\": \"contains\" is not supported");
  EXPECT_EQ(prepared(R"({"enum":[1],"properties":{}})"),
            "\"properties\" beside \"enum\" is not supported");
  EXPECT_EQ(prepared(R"({"properties":{"a1":{}},"propertyNames":{"pattern":"^[a-z]+$"}})"),
            "\"propertyNames\" beside \"properties\" is not supported");
  EXPECT_EQ(prepared(R"({"patternProperties":{"b":{}},"propertyNames":{"pattern":"^[a-z]+$"}})"),
            "\"propertyNames\" beside \"patternProperties\" is not supported");
  EXPECT_EQ(prepared(R"({"minimum":3,"exclusiveMinimum":true})"),
            "\"exclusiveMinimum\" is a boolean where a number belongs");
  EXPECT_EQ(prepared(R"({"uniqueItems":1})"),
            "\"uniqueItems\" is an integer where a boolean belongs");
  EXPECT_EQ(prepared(R"({"const":1,"enum":[1]})"),
            "\"const\" and \"enum\" in one schema are not supported");
  EXPECT_EQ(prepared(R"({"anyOf":[]})"), "\"anyOf\" needs a list that is not empty");
  EXPECT_EQ(prepared(R"({"$ref":"#/$defs/x"})"), "there is no \"#/$defs/x\" to refer to");
  EXPECT_EQ(prepared(R"({"$ref":"other.json"})"),
            "\"$ref\" can only refer to parts of this schema (\"#/...\")");
  EXPECT_EQ(prepared(R"({"$ref":"#/x/y","x":{"y":{"not":{}}}})"),
            "at \"/x/y\": \"not\" is not supported");
  EXPECT_EQ(prepared(R"({"required":["a"],"additionalProperties":false})"),
            "required property \"a\" is not described");
  EXPECT_EQ(prepared(R"({"maxItems":1000000})"), "\"maxItems\" is 1000000, over the limit of 5000");
  EXPECT_EQ(prepared(R"({"minLength":257})"), "\"minLength\" is 257, over the limit of 256");
  EXPECT_EQ(prepared(R"({"pattern":"a{9999}"})"),
            "\"pattern\": the expression is too large: its repetitions come to more than 5,000 "
            "characters");
  EXPECT_EQ(prepared(R"({"patternProperties":{"^a{ 2}$":{}}})"),
            "\"patternProperties\": the repetition \"{ 2}\" holds a blank; leave it out, or write "
            "\\{ for the character");
  EXPECT_EQ(prepared(R"({"pattern":"a","maxLength":3})"),
            "\"maxLength\" beside this \"pattern\" is not supported; say it in the pattern, as in "
            "\"^[a-z]{2,9}$\"");
  EXPECT_EQ(prepared(R"({"minLength":-1})"), "\"minLength\" needs an integer that is not negative");
  EXPECT_EQ(prepared(R"({"properties":{"a":3}})"),
            "at \"/properties/a\": expected a schema, found an integer");
  EXPECT_EQ(prepared(R"({"type":3})"), "\"type\" is an integer where a name belongs");
}

TEST(GrammarSchema, sizes_and_depths_are_limited) {
  std::string deep;
  for (int i = 0; i < 70; ++i) deep += R"({"items":)";
  deep += "{}" + std::string(70, '}');
  EXPECT_EQ(prepared(deep.c_str()), "schemas are nested deeper than 64 levels");
  std::string wide = R"({"anyOf":[{})";
  for (int i = 0; i < 5000; ++i) wide += ",{}";
  EXPECT_EQ(prepared((wide + "]}").c_str()), "it holds more than 5000 schemas");
  const std::string large = str(R"({"description":")", std::string(300000, 'x'), "\"}");
  EXPECT_EQ(prepared(large.c_str()), "it is larger than 262,144 bytes");
}

}  // namespace
}  // namespace glint
