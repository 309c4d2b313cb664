#include "text/jinja/template.h"

#include <gtest/gtest.h>

#include <thread>

namespace glint::jinja {
namespace {

std::string render(std::string_view source, std::string_view variables = "{}",
                   const RenderOptions& options = {}) {
  const Result<Template> parsed = Template::parse(source);
  if (!parsed.ok()) return "parse error: " + parsed.error().message;
  const Result<std::string> text = parsed.value().render(parse_json(variables).value(), options);
  return text.ok() ? text.value() : "error: " + text.error().message;
}

TEST(Template, whitespace_is_trimmed_as_with_trim_blocks_and_lstrip_blocks) {
  EXPECT_EQ(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(render("a {{- ' b ' -}} c"), "a b c");
  EXPECT_EQ(render("  {%+ if true %}x{% endif %}"), "  x");
  EXPECT_EQ(render("{% if true +%}\nx{% endif %}"), "\nx");
  EXPECT_EQ(render("{# c #}\nx\n\n"), "x\n");
  EXPECT_EQ(render("a\r\nb\rc\r\n"), "a\nb\nc");
  EXPECT_EQ(render("{% raw %}{{ x }}{% endraw %}"), "{{ x }}");
}

TEST(Template, operators_are_pythons) {
  EXPECT_EQ(render("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ 1 < 2 < 3 }}"),
            "-4 2 3.5 64 True");
  EXPECT_EQ(render("{{ 0 or 'x' }}{{ 1 and [] }}{{ not 'a' in 'abc' }}{{ 'a' ~ 1 ~ none }}"),
            "x[]Falsea1None");
  EXPECT_EQ(render("{{ 'abcdef'[::-2] }}{{ [1, 2, 3][-2:] }}{{ (1,) * 2 }}"), "fdb[2, 3](1, 1)");
  EXPECT_EQ(render("{{ '%05.1f|%-4s|%(x)s' % {'x': 1} }}"),
            "error: line 1, column 24: must be real number, not dict");
  EXPECT_EQ(render("{{ '%s-%03d' % ('a', 7) }} {{ '{:>4}|{:,}'.format('x', 1234567) }}"),
            "a-007    x|1,234,567");
}

TEST(Template, numbers_have_pythons_attributes_and_groups) {
  EXPECT_EQ(
      render("{{ n.real }} {{ n.imag }} {{ t.real }} {{ f.real }} {{ f.imag }} {{ t.numerator }} "
             "{{ n.denominator }} {{ f.numerator is defined }} {{ f.is_integer() }} "
             "{{ (2.0).is_integer() }}",
             R"({"n": 7, "t": true, "f": 2.5})"),
      "7 0 1 2.5 0.0 1 1 False False True");
  EXPECT_EQ(render("{{ '{:,}|{:_}|{:+,}|{:,}'.format(1234567.5, -1234.0, 1e3, 1e20) }}"),
            "1,234,567.5|-1_234.0|+1,000.0|1e+20");
  EXPECT_EQ(render("{{ range(9)[5:2] }} {{ range(5)[::2] }} {{ range(9, 0, -2)[1:-1] }}"),
            "range(5, 2) range(0, 5, 2) range(7, 1, -2)");
}

TEST(Template, only_texts_leave_a_filter_block) {
  EXPECT_EQ(render("{% filter upper %}a{% endfilter %}"), "A");
  EXPECT_EQ(render("{% filter length %}ab{% endfilter %}"),
            "error: line 1, column 4: sequence item: expected str instance, int found");
  EXPECT_EQ(render("{{ [] is filter }}"), "error: line 1, column 7: unhashable type: 'list'");
}

TEST(Template, containers_print_as_in_python) {
  EXPECT_EQ(render(R"({{ [1, 'a', none, true, 1.0, (1,), {'k': "it's"}, '\n', 'é', '\x00'] }})"),
            R"([1, 'a', None, True, 1.0, (1,), {'k': "it's"}, '\n', 'é', '\x00'])");
  EXPECT_EQ(render("{{ v }}", R"({"v": [1e16, 1e-5, 100000000000000000000, -0.0]})"),
            "[1e+16, 1e-05, 100000000000000000000, -0.0]");
  EXPECT_EQ(
      render("{{ v | tojson }} {{ v | tojson(indent=1) }}",
             R"({"v": {"b": "é\n", "a": [1.50, {}]}})"),
      "{\"b\": \"é\\n\", \"a\": [1.5, {}]} {\n \"b\": \"é\\n\",\n \"a\": [\n  1.5,\n  {}\n ]\n}");
}

TEST(Template, scopes_are_jinja2s) {
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{% endfor %}{{ x }}"),
            "111");
  EXPECT_EQ(render("{% set ns = namespace(x=0) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% "
                   "endfor %}{{ ns.x }}"),
            "3");
  EXPECT_EQ(render("{% set x %}[{{ x }}]{% endset %}{{ x }}", R"({"x": 1})"), "[]");
  EXPECT_EQ(render("{% macro m() %}{{ late }}{% endmacro %}{% set late = 2 %}{{ m() }}"), "2");
  EXPECT_EQ(render("{% for x in [1] %}{% break %}{% else %}E{% endfor %}"), "E");
}

TEST(Template, undefined_prints_nothing_and_has_no_attributes) {
  EXPECT_EQ(render("[{{ x }}{{ x is defined }}{{ d.y }}]", R"({"d": {}})"), "[False]");
  EXPECT_EQ(render("{{ x.y }}"), "error: line 1, column 5: 'x' is undefined");
  EXPECT_EQ(render("{{ d.y.z }}", R"({"d": {}})"),
            "error: line 1, column 7: 'dict object' has no attribute 'y'");
  EXPECT_EQ(render("{{ [].append(1) }}"),
            "error: line 1, column 13: access to attribute 'append' of 'list' object is unsafe.");
}

TEST(Template, macros_and_call_blocks) {
  EXPECT_EQ(render("{% macro m(a, b=a ~ 1) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro "
                   "%}{{ m('x', 'y', 3, k=4) }}{{ m('z') }}"),
            "xy(3,){'k': 4}zz1(){}");
  EXPECT_EQ(render("{% macro m() %}<{{ caller(1) }}>{% endmacro %}{% call(n) m() %}{{ n + 1 }}{% "
                   "endcall %}"),
            "<2>");
  EXPECT_EQ(render("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
            "error: line 1, column 35: macro 'm' takes not more than 1 argument(s)");
}

TEST(Template, the_loop_variable) {
  EXPECT_EQ(render("{% for x in 'abc' %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.previtem }}{{ "
                   "loop.nextitem }}{{ loop.last }} {% endfor %}"),
            "12bFalse 21acFalse 30bTrue ");
  EXPECT_EQ(render("{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is sequence else x ~ '@' "
                   "~ loop.depth ~ ' ' }}{% endfor %}"),
            "1@1 2@2 3@3 ");
  EXPECT_EQ(render("{% for x in [1, 2, 3] if x != 2 %}{{ x }}/{{ loop.length }} {% endfor %}"),
            "1/2 3/2 ");
}

TEST(Template, functions_of_transformers) {
  EXPECT_EQ(render("{{ raise_exception('no ' ~ 1) }}"), "error: line 1, column 19: no 1");
  EXPECT_EQ(render("{{ strftime_now('%Y') }}", "{}", {.now = std::time_t{1'700'000'000}}), "2023");
  EXPECT_EQ(render("{{ strftime_now('%z|%Z|%%z%') }} {{ strftime_now('%f') | length }}"),
            "||%z% 6");
  EXPECT_EQ(render("a{% generation %}b{% set x = 1 %}{% endgeneration %}{{ x is defined }}"),
            "abFalse");
}

TEST(Template, errors_say_line_and_column) {
  EXPECT_EQ(render("a\n  {{ b c }}"),
            "parse error: line 2, column 8: expected token 'end of print statement', got 'c'");
  EXPECT_EQ(render("{% for x in y %}\n"),
            "parse error: line 1, column 17: Unexpected end of template. Jinja was looking for the "
            "following tags: 'endfor' or "
            "'else'. The innermost block that needs to be closed is 'for'.");
  EXPECT_EQ(render("{{ 'é' | nope }}"), "parse error: line 1, column 10: No filter named 'nope'.");
  EXPECT_EQ(render("{{ 'ab\n"),
            "parse error: line 1, column 4: unexpected char ': a text without its end");
  EXPECT_EQ(render("x\n{{ 1\n + 'a' }}"),
            "error: line 3, column 2: unsupported operand type(s) for +: 'int' and 'str'");
  EXPECT_EQ(render("{% block b %}{% endblock %}"),
            "parse error: line 1, column 4: the tag 'block' is of no use in a chat template and "
            "not supported");
  EXPECT_EQ(render("\xff"), "parse error: the template is not valid UTF-8");
}

TEST(Template, integers_beyond_64_bits_are_kept_or_refused) {
  EXPECT_EQ(
      render("{{ 9223372036854775807 }} {{ 123456789012345678901 }} {{ 0xffffffffffffffffff }}"),
      "9223372036854775807 123456789012345678901 4722366482869645213695");
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ 3037000500 * 3037000500 }}", "{{ 10 ** 19 }}",
        "{{ -9223372036854775807 - 2 }}", "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ -(-9223372036854775807 - 1) }}", "{{ (-9223372036854775807 - 1) | abs }}"}) {
    EXPECT_NE(render(source).find("integers beyond 64 bits"), std::string::npos)
        << source << render(source);
  }
}

TEST(Template, renders_in_many_threads_at_once) {
  const Template shared =
      Template::parse(
          "{% macro m(x) %}{{ x | upper }}{% endmacro %}{% for i in l %}{{ m(i) }}{% endfor %}")
          .value();
  const Json variables = parse_json(R"({"l": ["a", "b", "c"]})").value();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) EXPECT_EQ(shared.render(variables).value(), "ABC");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace glint::jinja
