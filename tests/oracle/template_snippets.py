"""Input of template_oracle.py: snippets written by hand, random ones, and conversations."""
import re

VARIABLES = {
    "s": "Hello World", "t": "h\u00e9llo \u4e16\u754c \U0001f600", "e": "", "w": "  two words\t\n", "n": 7, "z": 0,
    "m": -3, "f": 2.5, "g": -0.1, "yes": True, "no": False, "none_": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "el": [], "mixed": [1, "x", None, 2.0, True, [1, 2], {"k": "v"}],
    "d": {"b": 1, "a": [1, 2], "items": "shadow", "C": {"x": "y"}}, "ed": {},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25}, {"name": "Cy", "age": 30, "city": None}],
    "big": 123456789012345678901234567890, "q": "it's \"q\"\\ \n\t\x07\u200b", "html": "<a href='x'>&amp; b</a>",
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo", "tool_calls": []}],
}

STATEMENTS = r"""
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}|{{ loop.nextitem }};{% endfor %}
{% for x in l if x > 1 %}{{ loop.length }}{{ x }}{{ loop.last }}{% else %}none{% endfor %}
{% for x in [] %}a{% else %}empty{% endfor %}{% for x in el if x %}a{% else %}b{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}E{% endfor %}
{% for x in l %}{% break %}{% else %}E{% endfor %}{% for x in l %}{% continue %}{% else %}E2{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for k, v in d|items %}{{ k }}{% endfor %}
{% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %}{{ d|dictsort(true) }}{{ d|dictsort(by='key', reverse=true) }}
{% for a, (b, c) in [(1, (2, 3)), [4, [5, 6]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [1] %}{{ a }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}
{% for x in l %}{% set outer = loop %}{% for y in ls %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}{% if no %}{% set y = 3 %}{% endif %}{{ y is defined }}{{ y }}
{% for i in l %}{% if i == 1 %}{% set s = 'new' %}{% endif %}{{ s }}{% endfor %}{{ s }}
{% set s = s ~ '!' %}{{ s }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}
{% set (a, b) = [5, 6] %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}{% set d2, = [9] %}{{ d2 }}
{% set ns = namespace({'k': 1}, j=2) %}{{ ns.k }}{{ ns.j }}{{ ns['k'] is defined }}{% set ns.a, x = 1, 2 %}{{ ns.a }}{{ x }}
{% set d.x = 1 %}
{% set undefinedthing.x = 1 %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}{% with %}{{ n }}{% set n = 8 %}{{ n }}{% endwith %}{{ n }}
{% with n = 1, k = n %}{{ k }}{% endwith %}{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}
{% macro m(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(a=5, b=6) }}{{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}
{% macro m(a=b, b=3) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}{{ m(b=4) }}
{% macro m(caller) %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro m() %}{{ late }}{% endmacro %}{% set late = 'L' %}{{ m() }}
{% macro m() %}{{ s }}{% endmacro %}{{ m() }}{% set t, s = s, 'own' %}{{ m() }}{% for x in l %}{{ t }}{% endfor %}
{% for x in l %}{{ s is defined }}{{ t }}{{ n }}{{ f() }}{% endfor %}{% set s = 1 %}{% set t %}{{ e }}{% endset %}{% set n = n + 1 %}{% macro f() %}{% endmacro %}
{% for x in l %}{{ s }}{{ n }}{% endfor %}{% if no %}{% set s = 1 %}{{ n }}{% endif %}{% set s = 2 %}{% set n = 3 %}{{ s }}
{% generation %}gen {{ n }}{% set inside = 1 %}{% endgeneration %}{{ inside is defined }}
{% for x in l %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}
{% for x in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{% for a, in [[1]] %}{{ a }}{% endfor %}
{% for x in 1, 2, recursive %}{{ x }}{% endfor %}
{{ namespace(undefd) }}
{{ '\\é \\世 \\😀 \\q' }}
{% break %}
{% if yes %}{% continue %}{% endif %}
{% for x in l %}{% else %}{% break %}{% endfor %}
{% set loop = 1 %}{{ loop }}{{ loop2 }}
{% raw %}{{ x }} {% if %}{% endraw %}{%- raw -%}  a  {%- endraw -%} b
{# comment #}a{#- c -#} b {#+ d +#} e
a {{- ' b ' -}} c {%- if yes -%} d {%- endif -%} e
{% if no %}a{% elif z %}b{% elif n %}c{% else %}d{% endif %}
{{ undefined_var }}{{ undefined_var.x }}
{{ undefined_var.x is defined }}
{{ d.nope }}{{ d.nope is defined }}{{ d['nope'] }}{{ d.nope.x }}
{{ none_.x }}{{ n.x }}{{ l.x }}{{ l[10] }}{{ l['x'] }}{{ d[[1]] }}
{{ raise_exception('boom ' ~ n) }}
{{ [].append(1) }}
{{ [].append }}{{ [].append is defined }}{{ d.pop is defined }}{{ d.update }}
{{ d.pop('a') }}
{{ d.clear() }}
{{ d.items() }}{{ d.keys() }}{{ d.values() }}{{ d['items'] }}{{ d.get('b') }}{{ d.get('zz') }}{{ d.get('zz', 5) }}{{ 'a' in d }}{{ 'q' in d.keys() }}
{{ d.keys()|list }}{{ d.values()|list|length }}{{ d.items()|list }}{{ d|length }}{{ d.keys()|length }}{{ d.items() is sequence }}{{ d.items() is iterable }}{{ d.items() is mapping }}
{% set g = l|map('string') %}{{ g|list }}{{ g|list }}{{ (l|map('string')) is sequence }}{{ (l|map('string'))[0] }}
{% if no %}{{ l|nofilter }}{% endif %}ok{{ (l|nofilter) if no else 'fine' }}
{{ 1 if no }}{{ (1 if no) is defined }}{{ (1 if no).x }}
{{ 'a' if yes else 'b' if no else 'c' }}{{ (1 if z else 2) + 1 }}
{{ range(5)|list }}{{ range(1, 10, 3)|list }}{{ range(5, 0, -2)|list }}{{ range(3)|length }}{{ range(10)[2] }}{{ range(10)[-1] }}{{ 3 in range(5) }}{{ range(0) is sequence }}{{ range(3)|last }}
{{ range(100001) }}
{{ range(0, 10, 0) }}
{{ loop is defined }}
{{ m.x }}{{ [1, 2, 3].index(3) }}{{ [1].index(5) }}
{{ 1 < 2 < 3 }}{{ 1 < 2 > 5 }}{{ 1 == 1.0 }}{{ 1 == true }}{{ 'a' == 'a' != 'b' }}{{ none == none }}{{ undefd == undefd2 }}{{ undefd == none }}
{{ 'a' < 1 }}
{{ [1, 2] < [1, 3] }}{{ (1, 2) < (1,) }}{{ 'abc' < 'abd' }}{{ none < 1 }}
{{ 1 in [1, 2] }}{{ 1.0 in [1] }}{{ 'ell' in s }}{{ 1 not in l }}{{ not 1 in l }}{{ 5 in n }}
{{ 1 in 'abc' }}
{{ undefd in 'abc' }}
{{ 'x' in undefd }}{{ undefd in l }}{{ [] in [[]] }}{{ 'a' in none_ }}
{{ 7 // 2 }}{{ -7 // 2 }}{{ 7 % 3 }}{{ -7 % 3 }}{{ 7 % -3 }}{{ 7 / 2 }}{{ 7.5 // 2 }}{{ -7.5 % 2 }}{{ 1e3 }}{{ 10 / 5 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 1.0 // 0 }}
{{ 'a' * 3 }}{{ 3 * 'ab' }}{{ [1] * 2 }}{{ (1,) * 2 }}{{ 'a' * -1 }}{{ true + true }}{{ -true }}{{ +true }}{{ +f }}{{ - - 3 }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + [2] }}{{ (1,) + (2,) }}{{ [1] + (2,) }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'x'] ~ {'a': 1} ~ undefd }}
{{ undefd + 1 }}
{{ -undefd }}
{{ undefd() }}
{{ n() }}
{{ s[0] }}{{ s[-1] }}{{ s[1:3] }}{{ s[::-1] }}{{ s[::2] }}{{ s[-3:] }}{{ s[:-3] }}{{ s[10:5] }}{{ s[5:1:-1] }}{{ s[100] }}{{ t[1] }}{{ t[-1] }}{{ t[1:4] }}{{ t[::-1] }}
{{ l[::-1] }}{{ l[0:2] }}{{ l[-1:] }}{{ l[:] }}{{ (1, 2, 3)[1:] }}{{ l[::0] }}
{{ l[1.5] }}{{ l[true] }}{{ l['0'] }}{{ l[0] }}{{ mixed[5][1] }}{{ l[1:'a'] }}
{{ none_[1:] }}
{{ undefd[1:] }}
{{ d[1:] }}
{{ messages[::-1][0].role }}{{ messages[-1]['role'] }}{{ messages[1:]|length }}{{ messages|map(attribute='role')|join(',') }}
{{ 1e5 }}{{ 1.5e-7 }}{{ 1E10 }}{{ 1.0 }}{{ 100000000000000000.0 }}{{ 12345678901234567890 }}
{{ "it's" }}{{ 'a' 'b' "c" }}
{{ [1, 'a', none, true, 1.5, (1,), (), {'k': [1]}, "it's", 'say "x"', 'both\'"', 'nl\n', 'é', '\x00', '\u200b'] }}
{{ {} }}{{ [] }}{{ () }}{{ (1,) }}
{{ {[1]: 2} }}
{{ {'a': 1,} }}{{ [1,] }}{{ (1, 2,) }}
{{ d|tojson }}{{ d|tojson(indent=2) }}{{ mixed|tojson }}{{ q|tojson }}{{ t|tojson }}{{ t|tojson(ensure_ascii=true) }}{{ html|tojson }}
{{ d|tojson(sort_keys=true) }}{{ d|tojson(separators=(',', ':')) }}{{ d|tojson(indent=0) }}{{ d|tojson(indent='--') }}{{ [[], {}]|tojson(indent=1) }}{{ d|tojson(true, 4) }}
{{ undefd|tojson }}
{{ range(3)|tojson }}
{{ (l|map('string'))|tojson }}
{{ {'a': 1, 1: 2}|tojson(sort_keys=true) }}
{{ big }}{{ big|tojson }}{{ big == big }}{{ big > 5 }}{{ big is integer }}{{ [big] }}{{ 1e400 }}{{ -1e400 }}
{{ big + 1 }}
{{ 9223372036854775807 + 1 }}
{{ 9223372036854775807 * 2 }}
{{ s.upper() }}{{ s.lower() }}{{ s.split() }}{{ s.split('o') }}{{ s.split('o', 1) }}{{ s.rsplit('o', 1) }}{{ s.split('l') }}{{ w.split() }}{{ w.strip() }}{{ w.lstrip() }}{{ w.rstrip() }}{{ 'xxaxx'.strip('x') }}{{ ''.split() }}{{ ''.split(',') }}
{{ ' a  b c '.split(none, 1) }}{{ ' a  b c '.rsplit(none, 1) }}{{ 'a,b,c'.split(',', maxsplit=1) }}{{ 'a--b'.split('--') }}{{ 'abc'.split('') }}
{{ s.startswith('He') }}{{ s.endswith(('x', 'ld')) }}{{ s.startswith('W', 6) }}{{ s.startswith(('a', 'H')) }}{{ s.startswith('', 50) }}{{ s.endswith('') }}{{ s.startswith(5) }}
{{ s.find('o') }}{{ s.rfind('o') }}{{ s.find('z') }}{{ s.index('W') }}{{ s.count('l') }}{{ s.count('') }}{{ t.find('世') }}{{ t.rfind('l') }}{{ s.find('o', 5) }}{{ s.find('o', 5, 6) }}{{ s.find('', 20) }}{{ s.count('o', 5) }}{{ t.find('') }}{{ t.rfind('') }}
{{ s.index('z') }}
{{ s.replace('l', 'L') }}{{ s.replace('l', 'L', 1) }}{{ s.replace('', '-') }}{{ t.replace('', '.') }}{{ s.replace('o', '') }}
{{ ','.join(ls) }}{{ ','.join('abc') }}{{ ','.join([]) }}{{ ','.join(d) }}{{ ','.join([1]) }}
{{ 'hELLO'.capitalize() }}{{ 'ß'.upper() }}{{ 'ΑΣ'.lower() }}{{ 'ΑΣ Σ'.lower() }}{{ 'İ'.lower() }}
{{ '%s %d %r' % ('a', 5, 'b') }}{{ '%s' % 'x' }}{{ '%05d|%-5d|%5d' % (42, 42, 42) }}{{ '%.2f' % 3.14159 }}{{ '%%' % () }}{{ '%5.1f|' % 2.25 }}{{ '%.3s' % 'abcdef' }}{{ '%s' % [1, 2] }}{{ '%s' % none }}{{ '%d' % 3.9 }}{{ '%i' % true }}{{ '%-6s|' % 'é' }}{{ '%.5d' % 42 }}{{ 'abc' % [] }}{{ 'abc' % {} }}{{ '%s' % {'a': 1} }}{{ '%s' % undefd }}
{{ '%s' % (1, 2) }}
{{ '%s %s' % 1 }}
{{ '%d' % 'a' }}
{{ 'abc' % 1 }}
{{ '%' % 1 }}
{{ s|upper }}{{ s|lower }}{{ s|capitalize }}{{ w|trim }}|{{ 'xax'|trim('x') }}{{ s|replace('l', 'L', 2) }}{{ n|replace(7, 8) }}{{ s|length }}{{ t|length }}{{ l|count }}{{ s|last }}{{ l|first }}{{ l|last }}{{ el|first }}{{ el|last }}{{ s|string }}{{ n|string + 'x' }}{{ s|list }}{{ d|list }}
{{ n|length }}
{{ n|upper }}{{ none_|upper }}{{ undefd|upper }}{{ undefd|default('D') }}{{ undefd|d('D') }}{{ e|default('D') }}{{ e|default('D', true) }}{{ none_|default('D') }}{{ none_|default('D', boolean=true) }}{{ d.zz|default(5) }}
{{ '42'|int }}{{ '42.9'|int }}{{ 'abc'|int }}{{ 'abc'|int(5) }}{{ 'ff'|int(base=16) }}{{ '0x1f'|int(0, 16) }}{{ 3.9|int }}{{ -3.9|int }}{{ none_|int }}{{ ' 7 '|int }}{{ '1_000'|int }}{{ '1e3'|int }}{{ true|int }}{{ '10'|int(base=2) }}{{ 'inf'|int }}{{ 1e20|int }}{{ [1]|int }}
{{ undefd|int }}
{{ 0.1 + 0.2 }}{{ 1 / 3 }}{{ 1e16 }}{{ 1.5e300 * 1e10 }}
{{ l|sort }}{{ l|sort(reverse=true) }}{{ ls|sort }}{{ ls|sort(case_sensitive=true) }}{{ people|sort(attribute='age')|map(attribute='name')|list }}{{ people|sort(attribute='age,name', reverse=true)|map(attribute='name')|list }}{{ ['b', 'B', 'a', 'A']|sort }}{{ ls|unique|list }}{{ [1, 1.0, true, 2]|unique|list }}{{ people|unique(attribute='age')|list|length }}
{{ mixed|sort }}
{{ people|groupby('age') }}{% for g in people|groupby('age') %}{{ g.grouper }}{{ g.list|length }}{{ g[0] }}{% endfor %}{% for age, group in people|groupby('age') %}{{ age }}:{{ group|map(attribute='name')|join('+') }};{% endfor %}{{ people|groupby('city', default='X') }}
{{ l|join }}{{ l|join(', ') }}{{ people|join(',', attribute='name') }}{{ ls|join(1) }}{{ s|join('-') }}{{ mixed|join('|') }}{{ undefd|join }}
{{ people|map(attribute='name')|list }}{{ people|map(attribute='city', default='none')|list }}{{ people|map(attribute='tags.0')|list }}{{ ls|map('upper')|list }}{{ ls|map('replace', 'a', 'z')|join }}{{ l|map('string')|join('-') }}{{ people|selectattr('age', 'gt', 26)|map(attribute='name')|list }}{{ people|selectattr('tags')|list|length }}{{ people|rejectattr('city', 'defined')|map(attribute='name')|list }}{{ mixed|select|list }}{{ mixed|select('string')|list }}{{ l|select('>', 1)|list }}{{ l|select('in', [1, 2])|list }}{{ people|selectattr('name', 'equalto', 'bob')|first }}
{{ people|map()|list }}
{{ people|map(foo='x')|list }}
{{ people|selectattr()|list }}
{{ html|safe }}{{ [html|safe] }}{{ ('<'|safe) * 2 }}{{ ('<'|safe)|length }}
{{ '%s-%s'|format('a', 'b') }}{{ 'none'|format }}
{{ d|items|list }}{{ undefd|items|list }}{{ l|items|list }}
{{ s is string }}{{ n is number }}{{ f is float }}{{ n is integer }}{{ yes is integer }}{{ yes is number }}{{ yes is boolean }}{{ none_ is none }}{{ d is mapping }}{{ l is sequence }}{{ l is iterable }}{{ s is sequence }}{{ s is iterable }}{{ n is iterable }}{{ undefd is sequence }}{{ undefd is iterable }}{{ undefd is none }}{{ 1 is eq 1 }}{{ 1 is equalto(1) }}{{ 1 is ne 2 }}{{ 1 is lt 2 }}{{ 1 is ge(1) }}{{ 1 is in [1] }}{{ 1 is not in [1] }}{{ yes is true }}{{ no is false }}{{ 1 is true }}{{ n is not none }}{{ n is not defined }}{{ not n is defined }}
{{ 1 is defined is defined }}
{{ 1 is defined(2) }}
{{ yes and no }}{{ yes or no }}{{ not yes }}{{ 0 or 'x' }}{{ 1 and 'x' }}{{ '' and 5 }}{{ none or [] }}{{ yes and not no or z }}{{ [] or {} or 0 or none }}
{{ dict(a=1, a=2) }}
{{ range(1, 2, 3, 4) }}
{{ s.upper(1) }}
{{ strftime_now('%Y') }}{{ strftime_now('%d %b %Y') }}{{ strftime_now('') }}{{ strftime_now('%z%Z|%f')|length }}
{{ 1 if }}
{{ }}
{{ (1 }}
{{ 1) }}
{{ [1, 2 }}
{% if %}{% endif %}
{% if yes %}
{% endif %}
{% for %}{% endfor %}
{% for x in l %}{% endif %}
{% unknown %}
{% set %}
{% set 1 = 2 %}
{% set a.b.c = 2 %}
{% set true = 2 %}
{{ a b }}
{{ 1 2 }}
{{ 'unterminated }}
{{ ! }}
{{ $ }}
{{ a. }}
{% raw %}never ends
{# never ends
{{ never ends
{% never ends
{% set x = 1
{{ x | }}
{{ x is }}
{{ 'a'|upper('x') }}
{{ 'a'|nosuch.filter }}
{{ {1: 2}[1] }}{{ [1, 2][0] }}{{ 'abc'[1] }}{{ (1, 2)[1] }}{{ {'a': {'b': [1, {'c': 'deep'}]}}.a.b[1].c }}
{{ l|first|string|length }}{{ -l|first }}{{ 2 + 3|string|int }}{{ 'a' ~ 'b'|upper }}{{ not 'a' in 'abc' }}{{ (1 + 2) * 3 }}{{ 1 if 2 > 1 else 3 + 4 }}{{ 5 - 3 - 1 }}{{ 2 * 3 ~ 4 }}{{ 'x' ~ 1 + 2 }}
{{ (l + [4])[-1] }}{{ l[n - 7] }}{{ s[n - 7:n] }}
{%- for message in messages %}{%- if message['role'] == 'user' %}{{- 'U:' + message['content'] }}{%- elif message.role == 'assistant' %}{{- 'A:' + message.content|trim }}{%- endif %}{%- endfor %}
{% set x = namespace(found=false) %}{% for m in messages if m.role == 'user' and not x.found %}{{ m.content }}{% set x.found = true %}{% endfor %}{{ x.found }}
{{ [undefd] }}{{ {'a': undefd} }}{{ (undefd,)|length }}{{ [none_, undefd]|map('default', 'z')|list }}
{{ f.is_integer }}{{ n.__class__ }}{{ s.__len__ }}{{ d.__class__.x }}
{{ d|length > 3 and 'many' or 'few' }}{{ (d.C).x }}{{ d.C['x'] }}{{ d['C'].x }}
{{ 'x' if undefd else 'y' }}{{ 'x' if el else 'y' }}{{ 'x' if l else 'y' }}{{ 'x' if 0.0 else 'y' }}{{ 'x' if range(0) else 'y' }}{{ 'x' if d.items() else 'y' }}{{ 'x' if ed.keys() else 'y' }}{{ 'x' if (el|map('string')) else 'y' }}
"""

WHITESPACE = [
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "{% if yes %}\n\n a{% endif %}\n\n", "  {{ n }}\n", "  {# c #}\n x",
    "  {%+ if yes %}a{% endif %}", "{% if yes +%}\n a{% endif %}", "{% if yes -%}\n\n a {%- endif %}\n b",
    "x {% if yes %} y {% endif %} z", "\n\n  {% set a = 1 %}  \n  b", "a\r\nb\r{% if yes %}\r\nc{% endif %}\r\n",
    "{{ 'a\r\nb' }}", "a\n", "a\n\n", "\n", "", " ", "{{ n }}\n{{ n }}\n", "\t{% if yes %}\n\t\tx\n\t{% endif %}\n",
    "{% for x in l %}\n  {{ x }}\n{% endfor %}\n", "{%- for x in l -%}\n  {{ x }}\n{%- endfor -%}\n",
    "  {% raw %}\n  a {% endraw %}\n b", "  {%- raw %}\n x {%+ endraw %} y", "  {% raw -%}\n  x\n  {%- endraw -%}\n y",
    "a {#- c #} b", "a {# c -#} b", "a\n {#+ c #} b", "{# a #}\n{# b +#}\n{# c #}", "{{ '}}' }}{{ '%}' }}{{ '{{' }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': {}} }}", "{{-n-}}", "{{+n}}", "{{ n -}}  x", "{%if yes%}a{%endif%}",
    "{%-if yes-%}a{%-endif-%}", "{{n}}{{n}}", "{ {n} }", "{{{n: 1}}}", "{%", "{{", "{#", "{", "}", "%}", "}}", "#}",
    "{%raw%}{{n}}{%endraw%}", "{% raw %}{% endraw %}", "{%- raw -%} {% endraw %}x", "\u00a0{% if yes %}a{% endif %}",
    "a \u2003\n\u2003{%- if yes %}b{% endif -%} \u2003c", "{{\u00a0n\u00a0}}", "{{ n }}{#\n#}\n  {# #}{{ n }}",
    "{% if yes: %}a{% endif %}", "{% for x in l: %}{{ x }}{% endfor %}", "{{ n\n+\n1 }}", "  \n  {% if yes %}a{% endif %}",
    "{% set x %}\n a\n{% endset %}[{{ x }}]", "{% macro m() %}\n a\n{% endmacro %}[{{ m() }}]", "a{{ n }}\n\n{% if yes %}\nb{% endif %}",
    "{{ n }}  {% if yes %}a{% endif %}", "{% if yes %}a{% endif %}  {% if yes %}b{% endif %}", "{{ \u4e16 }}", "{{ \u00e9t\u00e9 is defined }}",
]


def written():
    sources = []
    for line in STATEMENTS.strip("\n").split("\n"):
        # A line of prints alone is one snippet for each.
        prints = re.findall(r"\{\{ .*? \}\}(?=\{\{|$)", line)
        sources += prints if "".join(prints) == line else [line]
    return [(source, VARIABLES) for source in sources + WHITESPACE]


ATOMS = ("s t e w n z m f g yes no none_ l ls el mixed d ed people big q html undef0 1 2 0 -1 10 1.5 0.1 1e3 'a' 'l' '' ' ' 'b,c' "
         "'\u00e9' [] {} () (1,2) [1,2,3] ['x','Y'] {'a':1} {'k':'v','n':[1]} true false none range(4) people[0] d.a d.C messages").split(" ")
UNARY_FILTERS = ("upper lower capitalize trim length count first last list string int sort unique join tojson items dictsort safe "
                 "default").split()
FILTERS = ["default({0})", "default({0}, true)", "join({0})", "replace({0}, {1})", "map('upper')", "map('string')", "map(attribute={0})",
           "select", "select('string')", "reject('none')", "selectattr({0})", "rejectattr({0})", "int({0})",
           "trim({0})", "sort(reverse=true)", "tojson(indent=2)", "tojson(ensure_ascii={0})", "format({0})", "dictsort(by='value')",
           "unique(true)", "map('length')", "map('int')", "map('default', {0})", "select('in', {0})", "select('eq', {0})", "list|length",
           "map('first')|list", "map('list')|list", "sort(case_sensitive=true)", "groupby({0})"]
TESTS = "defined undefined none boolean true false integer float number string mapping iterable sequence odd".split()
METHODS = ["upper()", "lower()", "strip()", "strip({0})", "lstrip()", "rstrip({0})", "split()", "split({0})", "split({0}, 1)",
           "rsplit({0}, 1)", "startswith({0})", "endswith({0})", "replace({0}, {1})", "find({0})", "rfind({0})", "index({0})",
           "count({0})", "join({0})", "capitalize()", "items()", "keys()", "values()", "get({0})", "get({0}, {1})", "append({0})",
           "pop()", "update({0})", "title()"]


# jinja2 prints generators with their addresses; laziness itself is the matter of some snippets above.
LAZY = ("unique", "items", "map", "select", "reject", "selectattr", "rejectattr")


def filtered(source, name):
    lazy = name.split("(")[0] in LAZY and "|" not in name
    return f"({source}|{name}{'|list' if lazy else ''})"


def expression(rng, depth):
    def sub():
        return expression(rng, depth - 1)

    if depth <= 0 or rng.random() < 0.1:
        return rng.choice(ATOMS)
    kind = rng.randrange(16)
    if kind <= 2:
        operator = rng.choice("+ - * / // % == != < > <= >= in ~ and or".split() + ["not in", "+", "~"])
        return f"({sub()} {operator} {sub()})"
    if kind == 3:
        return f"({rng.choice(['not ', '-', '+'])}{sub()})"
    if kind <= 6:
        return filtered(sub(), rng.choice(UNARY_FILTERS))
    if kind <= 8:
        operands = (sub(), sub()) if rng.random() < 0.5 else (rng.choice(ATOMS), rng.choice(ATOMS))
        return filtered(sub(), rng.choice(FILTERS).format(*operands))
    if kind == 9:
        return f"({sub()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)})"
    if kind <= 11:
        return f"({sub()}).{rng.choice(METHODS).format(rng.choice(ATOMS), rng.choice(ATOMS))}"
    if kind == 12:
        bound = [rng.choice(["", "1", "-1", "2", "-2", "0", "5"]) for _ in range(3)]
        # jinja2 folds constants, and a constant that cannot be sliced then prints nothing.
        return f"(s or {sub()})[{':'.join(bound)}]" if rng.random() < 0.3 else f"{rng.choice(['s', 't', 'l', 'ls', 'd', 'n'])}[{':'.join(bound)}]"
    if kind == 13:
        return f"({sub()})[{sub()}]" if rng.random() < 0.5 else f"({sub()}).{rng.choice(['name', 'a', 'role', 'content', 'x'])}"
    if kind == 14:
        return f"({sub()} if {sub()} else {sub()})"
    return rng.choice(["[{0}, {1}]", "({0}, {1})", "{{'a': {0}, 'b': {1}}}", "{{n: {0}}}", "'%s|%r' % ({0}, {1})",
                       "[{0}] + [{1}]"]).format(sub(), sub())


SHAPES = ["{{{{ {0} }}}}", "{{{{ {0} }}}}", "{{{{ {0} }}}}|{{{{ {1} }}}}", "{{% for x in {0} %}}{{{{ x }}}}{{{{ loop.index }}}}{{{{ loop.last }}}},{{% else %}}E{{% endfor %}}",
          "{{% if {0} %}}T{{% elif {1} %}}E{{% else %}}F{{% endif %}}", "{{% set v = {0} %}}{{{{ v }}}}{{{{ v is defined }}}}{{{{ [v, v] }}}}",
          "{{% macro m(a, b={1}) %}}{{{{ a }}}}{{{{ b }}}}{{% endmacro %}}{{{{ m({0}) }}}}", "{{% for a, b in {0} %}}{{{{ a }}}}={{{{ b }}}}{{% endfor %}}",
          "{{{{ ({0})|list }}}}", "{{{{ ({0})|tojson }}}}", "{{% set ns = namespace(v={0}) %}}{{% for i in {1} %}}{{% set ns.v = i %}}{{% endfor %}}{{{{ ns.v }}}}",
          "{{% with v = {0} %}}{{{{ v }}}}{{% endwith %}}{{{{ v }}}}",
          "{{{{ ({0}) == ({1}) }}}}", "{{% for x in {0} if x %}}{{{{ x }}}}{{{{ loop.length }}}}{{% endfor %}}"]


def randoms(rng):
    while True:
        source = rng.choice(SHAPES).format(expression(rng, rng.randrange(1, 4)), expression(rng, rng.randrange(1, 3)))
        if " at 0x" not in source:
            yield source, VARIABLES


TEXTS = ["Hi", "What is 2+2?", "", "  padded \n", "h\u00e9llo \u4e16\u754c \U0001f600", "a <think>x</think> b", "<think>\nR\n</think>\n\nX", "line1\nline2\n",
         "</think>", "quote \" and ' and \\", "tool <tool_call> text", "\u3000wide\u3000", "{{ not a template }}", "<|user|>"]
VALUES = ["Paris", 2, 1.5, True, None, [1, "\u00e9"], {"a": {"b": []}}, "", 1e5, -0.0, 12345678901234567890, "multi\nline", 0.1]


def parameters(rng):
    kinds = [{"type": "string", "description": "A city, \u00e9"}, {"type": "integer", "minimum": 1, "default": 3}, {"type": ["string", "null"]},
             {"type": "array", "items": {"type": "number"}}, {"type": "string", "enum": ["a", "b"]}, {"type": "boolean"}, {"type": "array"},
             {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "string"}}}, "required": ["x"]},
             {"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "number", "nullable": True}, {"oneOf": [{"type": "string", "description": "one"}, {"type": "null"}]}]
    names = rng.sample(["city", "days", "unit", "note", "nested", "flag"], rng.randrange(0, 5))
    properties = {name: rng.choice(kinds) for name in names}
    return {"type": "object", "properties": properties, "required": names[:1]} if names or rng.random() < 0.5 else {"type": "object", "properties": {}}


def tool(rng):
    function = {"name": rng.choice(["get_weather", "now", "search"]), "description": rng.choice(["Get it.", "Returns \u00e9 & <b>", "Two\nlines"]),
                "parameters": parameters(rng)}
    if rng.random() < 0.2:
        function["strict"] = True
    if rng.random() < 0.2:
        function["return"] = {"type": "string", "description": "what came"}
    return {"type": "function", "function": function}


def call(rng, as_text):
    import json
    arguments = {name: rng.choice(VALUES) for name in rng.sample(["city", "days", "unit"], rng.randrange(0, 3))}
    function = {"name": rng.choice(["get_weather", "now"]), "arguments": json.dumps(arguments) if as_text else arguments}
    result = {"id": "call_%09d" % rng.randrange(10**9), "type": "function", "function": function}
    return function if rng.random() < 0.1 else result


def content(rng):
    choice = rng.random()
    if choice < 0.7:
        return rng.choice(TEXTS)
    if choice < 0.9:
        parts = [{"type": "text", "text": rng.choice(TEXTS)} for _ in range(rng.randrange(1, 3))]
        if rng.random() < 0.3:
            parts.append(rng.choice([{"type": "image"}, {"type": "image_url", "image_url": {"url": "x"}}, "plain"]))
        return parts
    return None


def plain_conversation(rng):
    """Roles that alternate, which strict templates want."""
    messages = [{"role": "system", "content": rng.choice(TEXTS)}] if rng.random() < 0.5 else []
    for i in range(rng.randrange(1, 6)):
        text = rng.choice(TEXTS)
        messages.append({"role": "assistant" if i % 2 else "user", "content": text if rng.random() < 0.7 else [{"type": "text", "text": text}]})
    return messages


def conversation(rng):
    as_text = rng.random() < 0.15
    messages = []
    if rng.random() < 0.6:
        messages.append({"role": rng.choice(["system", "system", "developer"]), "content": content(rng) if rng.random() < 0.3 else rng.choice(TEXTS)})
    for _ in range(rng.randrange(1, 4)):
        messages.append({"role": "user", "content": content(rng) if rng.random() < 0.5 else rng.choice(TEXTS)})
        for _ in range(rng.randrange(0, 3)):
            message = {"role": "assistant", "content": rng.choice(TEXTS + [None])}
            for key in ("reasoning_content", "thinking", "reasoning"):
                if rng.random() < 0.3:
                    message[key] = rng.choice(["thought", " padded \n", "", "two\nlines"])
            messages.append(message)
            if rng.random() < 0.5:
                message["tool_calls"] = [call(rng, as_text) for _ in range(rng.randrange(1, 3))]
                for _ in message["tool_calls"]:
                    result = content(rng) if rng.random() < 0.3 else rng.choice(TEXTS)
                    messages.append({"role": "tool", "content": result, "name": "get_weather", "tool_call_id": "call_000000001"})
    if rng.random() < 0.4 and messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": "and?"})
    kwargs = {"add_generation_prompt": rng.random() < 0.7, "bos_token": "<s>", "eos_token": "</s>"}
    for name, values in {"enable_thinking": [True, False], "clear_thinking": [True, False], "thinking": [True, False], "reasoning_effort": ["low", "high"],
                         "builtin_tools": [["python", "browser"], []], "date_string": ["26 Jul 2024"], "custom_tools": [None], "tools_in_user_message": [True, False],
                         "model_identity": ["You are X."], "documents": [[]]}.items():
        if rng.random() < 0.3:
            kwargs[name] = rng.choice(values)
    if rng.random() < 0.3:
        messages = plain_conversation(rng)
    tools = [tool(rng) for _ in range(rng.randrange(1, 4))] if rng.random() < 0.5 else rng.choice([None, []])
    return {"messages": messages, "tools": tools, "kwargs": kwargs}


def conversations(rng, count):
    return [conversation(rng) for _ in range(count)]
