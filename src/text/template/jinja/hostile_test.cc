// Templates that want to hang or crash whoever renders them: each must be an error within the
// limits.
#include <gtest/gtest.h>

#include "base/str.h"
#include "text/template/jinja/template.h"

namespace glint::jinja {
namespace {

std::string repeat(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// Less than by default, so that the tests are quick.
constexpr Limits kLimits = {.max_steps = 1'000'000,
                            .max_bytes = std::uint64_t{1} << 26,
                            .max_output_bytes = std::size_t{1} << 23};

// The error of a template, "" if it renders.
std::string error_of(std::string_view source, const Limits& limits = kLimits) {
  const Result<Template> parsed = Template::parse(source);
  if (!parsed.ok()) return parsed.error().message;
  const Result<std::string> text = parsed.value().render(Json(Json::Object{}), {.limits = limits});
  return text.ok() ? "" : text.error().message;
}

bool mentions(const std::string& error, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    if (error.find(word) != std::string::npos) return true;
  }
  return false;
}

TEST(Hostile, source_that_nests_without_end) {
  for (const char* open : {"(", "[", "{1:", "not ", "-", "a if b else ", "a(", "a[", "a|f(",
                           "{% if a %}x{{", "a and not "}) {
    EXPECT_NE(error_of("{{ " + repeat(open, 100000) + "1 }}"), "") << open;
  }
  for (const char* tag : {"{% if 1 %}", "{% for a in b %}", "{% macro m() %}", "{% set a %}",
                          "{% with %}", "{% generation %}"}) {
    EXPECT_NE(error_of(repeat(tag, 100000)), "") << tag;
  }
  for (const char* chain :
       {" + 1", ".a", "[0]", " | upper", " is string", "()", " ~ 1 + 1", " and 1", " * 1"}) {
    EXPECT_NE(error_of("{{ 1" + repeat(chain, 100000) + " }}"), "") << chain;
  }
}

TEST(Hostile, much_source_is_no_problem) {
  EXPECT_EQ(error_of(repeat("{% if a %}{% elif b %}{% endif %}{{ c }}", 20000)), "");
  EXPECT_EQ(error_of(repeat("{# x #} {% raw %}{% x {% endraw %}", 20000)), "");
  std::string names;
  for (int i = 0; i < 20000; ++i)
    names += str("{% if a", i, " %}{% set b", i, " = 1 %}{% endif %}");
  EXPECT_EQ(error_of(names), "");
  EXPECT_NE(error_of("{{ 0x" + repeat("f", 100000) + " }}"), "");
  EXPECT_NE(error_of(std::string(std::size_t{2} << 20, ' ')), "");
}

TEST(Hostile, long_texts_that_are_read_again_and_again) {
  for (const char* read :
       {"s|int", "s|upper|first", "s.strip('a')", "s.strip(s)", "s.split()|first",
        "(' ' * 100000).strip()", "s.count('')", "s|capitalize|first", "s.find('b')",
        "s == s ~ 'b'", "s == t", "s < t", "s in [t]", "[s] == [t]", "[s].index(t)",
        "s.startswith(t)", "s.endswith((t, t))"}) {
    const std::string loop =
        "{% set s = 'a' * 100000 %}{% set t = 'a' * 100000 %}{% for i in range(9999) %}{% if ";
    const std::string error = error_of(loop + read + " %}{% endif %}{% endfor %}",
                                       {.max_steps = 100'000, .max_bytes = std::uint64_t{1} << 23});
    EXPECT_TRUE(mentions(error, {"steps", "bytes"})) << read;
  }
}

TEST(Hostile, arguments_without_end) {
  std::string names;
  for (int i = 0; i < 1001; ++i) names += str("a", i, ",");
  EXPECT_TRUE(
      mentions(error_of("{% macro m(" + names + ") %}{% endmacro %}"), {"1000 parameters"}));
  std::string values;
  for (int i = 0; i < 1001; ++i) values += str("a", i, "=1,");
  EXPECT_TRUE(mentions(error_of("{{ namespace(" + values + ") }}"), {"1000 keyword arguments"}));
}

TEST(Hostile, loops_without_end) {
  EXPECT_TRUE(mentions(
      error_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
      {"steps"}));
  EXPECT_TRUE(mentions(error_of("{{ range(0, 1000000000000000) }}"), {"Range too big"}));
  EXPECT_TRUE(mentions(
      error_of("{% for a in range(99999) %}{{ range(99999) | list | sort | length }}{% endfor %}"),
      {"steps", "bytes"}));
  EXPECT_TRUE(
      mentions(error_of("{% for a in 'x' * 9999999 %}{{ a }}{% endfor %}"), {"steps", "bytes"}));
  EXPECT_TRUE(
      mentions(error_of("{% set k %}{% for i in range(50000) %}{{ i }},{% endfor %}{% endset "
                        "%}{{ k.split(',') | unique | list | length }}"),
               {"steps", "bytes"}));
  EXPECT_TRUE(mentions(error_of("{% set ns = namespace(s='a' * 1000000) %}{% for a in range(99999) "
                                "%}{{ ns.s.find('b') }}{{ ns.s "
                                "| upper }}{{ ns.s[500000] }}{{ 'q' in ns.s }}{% endfor %}"),
                       {"steps", "bytes"}));
}

TEST(Hostile, recursion_without_end) {
  EXPECT_TRUE(mentions(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), {"deep"}));
  EXPECT_TRUE(mentions(
      error_of("{% macro m() %}{% for a in [1] if m() %}{% endfor %}{% endmacro %}{{ m() }}"),
      {"deep"}));
}

TEST(Hostile, recursion_through_deep_expressions_and_statements) {
  const std::string inners[] = {"{{ m()" + repeat(" + 1", 390) + " }}",
                                "{{ " + repeat("1 < (", 90) + "m()" + repeat(")", 90) + " }}",
                                "{{ " + repeat("[", 90) + "m()" + repeat("]", 90) + " }}",
                                "{{ " + repeat("x(", 60) + "m()" + repeat(")", 60) + " }}",
                                repeat("{% if 1 %}{% for x in [1] %}{% with %}", 30) + "{{ m() }}" +
                                    repeat("{% endwith %}{% endfor %}{% endif %}", 30),
                                repeat("{% set q %}{% generation %}", 40) + "{{ m() }}" +
                                    repeat("{% endgeneration %}{% endset %}", 40)};
  for (const std::string& inner : inners) {
    EXPECT_TRUE(mentions(error_of("{% macro x(y) %}{% endmacro %}{% macro m() %}" + inner +
                                  "{% endmacro %}{{ m() }}"),
                         {"deep"}))
        << inner;
  }
}

TEST(Hostile, values_that_grow_without_end) {
  for (const char* source :
       {"{{ 'a' * 1000000000000 }}", "{{ [1] * 1000000000000 }}",
        "{{ ('a' * 99999).replace('', 'b' * 99999) }}", "{{ ('b' * 99999).join('a' * 99999) }}",
        "{{ '%1000000000d' % 1 }}", "{{ '%.1000000000f' % 1 }}",
        "{{ [1] | tojson(indent=1000000000000) }}",
        "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% "
        "endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% "
        "endfor %}",
        "{% for i in range(99999) %}{{ 'a' * 99999 }}{% endfor %}",
        "{% set x %}{% for i in range(99999) %}{{ 'a' * 99999 }}{% endfor %}{% endset %}"}) {
    EXPECT_TRUE(mentions(error_of(source), {"bytes", "steps", "too large", "too big", "Too many"}))
        << source << error_of(source);
  }
}

TEST(Hostile, values_with_shared_parts) {
  const std::string bomb =
      "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
      "{% set ns.b = [ns.b, ns.b] %}{% endfor %}";
  for (const char* use : {"{{ ns.a }}", "{{ ns.a == ns.b }}", "{{ ns.a | tojson }}",
                          "{{ ns.a in [ns.b] }}", "{{ ns.a | string }}", "{{ '%r' % (ns.a,) }}"}) {
    EXPECT_TRUE(mentions(error_of(bomb + use), {"bytes", "steps"})) << use;
  }
  const std::string tuples =
      "{% set ns = namespace(a=(1,)) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% "
      "endfor %}";
  EXPECT_TRUE(mentions(error_of(tuples + "{{ ns.a in {} }}"), {"bytes", "steps"}));
}

TEST(Hostile, values_that_hold_themselves_or_long_chains) {
  EXPECT_EQ(error_of("{% set ns = namespace() %}{% set ns.x = ns %}{% set ns.y = [ns] %}"), "");
  const char* const links[] = {"[ns.x]", "{'a': ns.x}", "(1, ns.x)"};
  for (const char* link : links) {
    const std::string source =
        str("{% set ns = namespace(x=none) %}{% for i in range(9000) %}{% set ns.x = ", link,
            " %}{% endfor %}");
    EXPECT_TRUE(mentions(error_of(source), {"deep", "iterable"})) << link << error_of(source);
  }
  // These chain through objects whose contents can change; freeing them must not recurse.
  EXPECT_EQ(error_of("{% set ns = namespace(x=none) %}{% for i in range(20000) %}{% set ns.x = "
                     "namespace(y=ns.x) %}{% endfor %}"),
            "");
  // A loop holds its items: a chain of loops counts as nested.
  EXPECT_TRUE(
      mentions(error_of("{% set ns = namespace(x=none) %}{% for i in range(9000) %}{% for j "
                        "in [ns.x] %}{% set ns.x = loop %}{% endfor %}{% endfor %}"),
               {"deep"}));
}

TEST(Hostile, variables_that_nest_deep) {
  Json deep = Json(1);
  for (int i = 0; i < 2000; ++i) deep = Json(Json::Array{std::move(deep)});
  Json variables = Json(Json::Object{});
  variables.set("x", std::move(deep));
  const Result<std::string> text = Template::parse("{{ x }}").value().render(variables);
  EXPECT_FALSE(text.ok());
}

// Memory that pieces take until they are values counts too.
TEST(Hostile, pieces_of_texts_count_as_much_as_they_take) {
  constexpr std::uint64_t kMuch = 200 * 10'000, kLittle = kMuch / 2;
  for (const char* pieces :
       {"s.split('a')", "s.rsplit('a')", "(s.replace('a', 'a ')).split()", "s|list"}) {
    const std::string source = str("{% set s = 'a' * 10000 %}{{ ", pieces, "|length }}");
    EXPECT_EQ(error_of(source, {.max_bytes = kMuch}), "") << pieces;
    EXPECT_TRUE(mentions(error_of(source, {.max_bytes = kLittle}), {"bytes"})) << pieces;
  }
}

TEST(Hostile, limits_are_what_they_say) {
  EXPECT_EQ(error_of("{{ 'a' * 1000 }}", {.max_output_bytes = 1000}), "");
  EXPECT_TRUE(
      mentions(error_of("{{ 'a' * 1001 }}", {.max_output_bytes = 1000}), {"more than 1000 bytes"}));
  EXPECT_TRUE(mentions(error_of("{% for i in range(100) %}{% endfor %}", {.max_steps = 100}),
                       {"more than 100 steps"}));
}

}  // namespace
}  // namespace glint::jinja
