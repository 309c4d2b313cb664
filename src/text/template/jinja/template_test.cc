#include "text/template/jinja/template.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/str.h"

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
  EXPECT_EQ(render("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 1 < 2 < 3 }}"), "-4 2 3.5 True");
  EXPECT_EQ(render("{{ 0 or 'x' }}{{ 1 and [] }}{{ not 'a' in 'abc' }}{{ 'a' ~ 1 ~ none }}"),
            "x[]Falsea1None");
  EXPECT_EQ(render("{{ 'abcdef'[::-2] }}{{ [1, 2, 3][-2:] }}{{ (1,) * 2 }}"), "fdb[2, 3](1, 1)");
  EXPECT_EQ(render("{{ '%s-%03d' % ('a', 7) }} {{ '%-4s|%5.1f|%%' % ('x', 2.25) }}"),
            "a-007 x   |  2.2|%");
}

TEST(Template, generators_are_true_and_used_up) {
  EXPECT_EQ(render("{% set g = [1, 2] | select('eq', 1) %}{{ 'yes' if g }} {{ g | list }} {{ g | "
                   "list }} {{ 'yes' if [] | map('upper') }}"),
            "yes [1] [] yes");
  EXPECT_EQ(render("{{ 'yes' if [1] | map('items') }} {{ [1] | map(attribute='x') | length }}"),
            "error: line 1, column 65: object of type 'generator' has no len()");
  EXPECT_EQ(render("{{ [[1]] | map(attribute='a.b') | list }}"),
            "error: line 1, column 35: 'list object' has no attribute 'a'");
}

TEST(Template, case_is_pythons_in_every_script) {
  EXPECT_EQ(render("{{ '\u00df\ufb01\u0390' | upper }} {{ '\u0130\u03a3' | lower }} {{ "
                   "'a\u03a3' | lower }} {{ '\u01c6A' | capitalize }}"),
            "SSFI\u0399\u0308\u0301 i\u0307\u03c2 a\u03c2 \u01c5a");
}

// One sentence for each thing of jinja2 that is left out, as early as can be.
TEST(Template, refuses_by_name) {
  EXPECT_EQ(render("{{ x | groupby('a') }}").substr(0, 91),
            "parse error: line 1, column 8: the filter 'groupby' is not supported; there are "
            "capitalize,");
  EXPECT_NE(render("{{ x is odd }}").find("the test 'odd' is not supported; there are !=, <,"),
            std::string::npos);
  const std::pair<const char*, const char*> refused[] = {
      {"{% call m() %}", "parse error: line 1, column 4: the tag 'call' is not supported"},
      {"{% filter upper %}", "parse error: line 1, column 4: the tag 'filter' is not supported"},
      {"{% include 'a' %}", "parse error: line 1, column 4: the tag 'include' is not supported"},
      {"{% set x | upper %}",
       "parse error: line 1, column 10: a filter of a set block is not supported"},
      {"{% for x in y recursive %}",
       "parse error: line 1, column 15: recursive loops are not supported"},
      {"{% for x in y %}{% macro m() %}",
       "parse error: line 1, column 26: a macro in a loop, a block or a macro is not supported"},
      {"{{ 2 ** 3 }}", "parse error: line 1, column 6: the operator ** is not supported"},
      {"{{ f(*x) }}", "parse error: line 1, column 6: arguments with * and ** are not supported"},
      {"{{ 0x1f }}",
       "parse error: line 1, column 4: numbers are not supported but in plain decimal digits"},
      {"{{ \u00e9 }}", "parse error: line 1, column 4: names outside of ASCII are not supported"},
      {"{{ 'a'.title() }}", "parse error: line 1, column 7: the method 'title' is not supported"},
      {"{{ cycler(1) }}",
       "parse error: line 1, column 4: 'cycler' is not supported; there are joiner, namespace, "
       "raise_exception, "
       "range, strftime_now"},
      {"{% macro m() %}{{ varargs }}{% endmacro %}{{ m() }}",
       "error: line 1, column 19: 'varargs' is not supported; there are joiner, "
       "namespace, raise_exception, range, strftime_now"},
      {"{% for x in [1] %}{{ loop.cycle(1) }}{% endfor %}",
       "parse error: line 1, column 26: loop.cycle is not supported"},
      {"{{ {none: 1} }}",
       "error: line 1, column 4: keys of a dict are not supported but texts and integers, not "
       "NoneType"},
      {"{{ '%x' % 1 }}",
       "error: line 1, column 9: the format %x is not supported; there are %s, %r, %d, %i, %f and "
       "%%, with a width and a precision"},
      {"{{ range(3) }}",
       "error: line 1, column 1: printing a value of type range is not supported"},
      {"{{ (x | safe).strip() }}",
       "error: line 1, column 14: methods of a text that the filter 'safe' made are not supported"},
  };
  for (const auto& [source, error] : refused) EXPECT_EQ(render(source), error) << source;
  // Also where it may never be run.
  for (const char* source : {"x | indent", "x is odd", "x.removeprefix('a')", "'{}'.format(x)",
                             "x.copy()", "{}.fromkeys([1])", "x | map('title')",
                             "x | selectattr('a', 'sameas', 1)", "x | reject('even')", "dict(a=x)"})
    EXPECT_NE(render(str("{% if x %}{{ ", source, " }}{% endif %}")).find("not supported"),
              std::string::npos)
        << source;
  EXPECT_EQ(render("{% for x in [] %}{{ loop.changed(x) }}{% endfor %}"),
            "parse error: line 1, column 25: loop.changed is not supported");
  EXPECT_EQ(render("{% macro dict(a) %}{{ a }}{% endmacro %}{{ dict('b') }}"), "b");
  EXPECT_EQ(render("{{ x.title }}", R"({"x": {"title": "T"}})"), "T");
  // Below an if, as in jinja2, an unknown filter is an error when it is run.
  EXPECT_EQ(render("{% if x %}{{ x | fromjson }}{% endif %}{{ x | fromjson if x }}."), ".");
  EXPECT_NE(render("{% if true %}{{ x | fromjson }}{% endif %}").find("'fromjson' is not"),
            std::string::npos);
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
  EXPECT_EQ(render("{% for i in [1] %}{{ x }}{{ y }}{% endfor %}{% set x = 2 %}{% set y = y %}",
                   R"({"x": 1, "y": 1})"),
            "1");
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

TEST(Template, joiners_begin_with_nothing) {
  EXPECT_EQ(render("{% set j = joiner('-') %}{% for x in 'abc' %}{{ j() }}{{ x }}{% endfor %}"),
            "a-b-c");
}

TEST(Template, macros) {
  EXPECT_EQ(render("{% macro m(a, b=a ~ 1) %}{{ a }}{{ b }}{% endmacro %}{{ m('x', 'y') }}"
                   "{{ m('z') }}{{ m(b=1, a=2) }}"),
            "xyzz121");
  EXPECT_EQ(render("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
            "error: line 1, column 35: macro 'm' takes not more than 1 argument(s)");
  EXPECT_EQ(render("{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}"),
            "error: line 1, column 35: macro 'm' takes no keyword argument 'a'");
  EXPECT_EQ(render("{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}"),
            "error: line 1, column 21: parameter 'a' was not provided");
}

TEST(Template, the_loop_variable) {
  EXPECT_EQ(render("{% for x in 'abc' %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.previtem }}{{ "
                   "loop.nextitem }}{{ loop.last }} {% endfor %}"),
            "12bFalse 21acFalse 30bTrue ");
  EXPECT_EQ(render("{% for x in [1, 2, 3] if x != 2 %}{{ x }}/{{ loop.length }} {% endfor %}"),
            "1/2 3/2 ");
  EXPECT_EQ(render("{% set ns = namespace(n=0) %}{% for x in [1, 2, 3] if ns.n < 2 %}{{ x }}"
                   "{% set ns.n = x %}{% endfor %}"),
            "12");
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
  EXPECT_EQ(render("{{ 'ab\n"),
            "parse error: line 1, column 4: unexpected char ': a text without its end");
  EXPECT_EQ(render("x\n{{ 1\n + 'a' }}"),
            "error: line 3, column 2: unsupported operand type(s) for +: 'int' and 'str'");
  EXPECT_EQ(render("\xff"), "parse error: the template is not valid UTF-8");
}

TEST(Template, integers_beyond_64_bits_are_kept_or_refused) {
  EXPECT_EQ(render("{{ 9223372036854775807 }} {{ 123456789012345678901 }}"),
            "9223372036854775807 123456789012345678901");
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ 3037000500 * 3037000500 }}",
        "{{ -9223372036854775807 - 2 }}", "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ -(-9223372036854775807 - 1) }}"}) {
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
