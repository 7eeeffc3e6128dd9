"""Constructs of the template language one by one, and combinations of them by seed."""

import pathlib
import random
import re

VARIABLES = {
    "s": "Hello, wOrld ß",
    "t": "  two\nlines\r\n  and <b>\"x\" & 'y'</b>\n",
    "n": 42,
    "f": 2.675,
    "big": 2**80 + 1,
    "u64": 2**64 - 1,
    "l": [3, 1, 2, 3, 1],
    "names": ["b", "A", "a", "C", "b"],
    "d": {"b": 1, "A": [1, 2], "a": None, "items": "key", "z": {"y": {"x": 5}}},
    "rows": [
        {"k": "x", "v": 3, "w": "P"},
        {"k": "Y", "v": 1},
        {"k": "x", "v": 2, "w": "q"},
        {"k": "y", "v": 1.5, "w": None},
    ],
    "empty": [],
    "no": None,
    "yes": True,
    "js": '{"a": [1, 2.5, null, true], "b": "\\u00e9"}',
    "greek": "ΑΣ ΟΔΟΣ, ΣΑΣ' Σ",
    "odd": "İstanbul ŉ ǆ ﬃ ﬅ ΐ և ᾳ ŐΣ",
}

# One a line, as in a Python string: \\x41 stays an escape of the template.
EXPRESSIONS = (pathlib.Path(__file__).parent / "expressions.txt").read_text()

TEMPLATES = [
    "{% filter upper %}a{{ s }}{% endfilter %}",
    "{% filter replace('a', 'b')|upper|indent(2, true) %}a\na{% endfilter %}",
    "a\n  {% raw %}{{ x }} {% if %}\n{% endraw %}\nb",
    "a {%- raw -%} {{ x }} {%- endraw -%} b",
    "{% raw %}\n x {% endraw %}\n",
    "  {%+ raw %} x {%+ endraw +%}\n y",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
    "{% block x %}b{{ n }}{% endblock %}{{ self.x() }}",
    "{% set a = 1 %}{% for i in l %}{% block y %}{{ i is defined }}{{ a }}{% endblock %}{% endfor %}",
    "{% for i in l %}{% block y scoped %}{{ i }}{% endblock y %}{% endfor %}",
    "{% block a %}1{% endblock %}{% block a %}2{% endblock %}",
    "{% for i in l %}{{ loop.cycle('a', 'b') }}{{ loop.index }}/{{ loop.length }}{% endfor %}",
    "{% for i in l %}{{ loop.cycle() }}{% endfor %}",
    "{% for i in l %}{{ loop.changed(i) }}{{ loop.revindex }}{{ loop.revindex0 }},{% endfor %}",
    "{% for i in l %}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{{ loop.index }}{{ loop.length }}{{ loop.last }}{% endfor %}",
    "{% for i in l|select('odd') %}{{ i }}{{ loop.last }}{{ loop.length }}{% else %}e{% endfor %}",
    "{% for i in empty %}{% else %}{% set z = 1 %}{{ z }}{% endfor %}{{ z }}",
    "{% for i in no %}{% endfor %}",
    "{% for i in nope %}x{% else %}none{% endfor %}",
    "{% for a, b in d.items() %}{{ a }}{{ b }}{{ loop.depth }}{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for r in [1, [2, [3]]] recursive %}{% if r is number %}{{ r }}{{ loop.depth }}{% else %}({{ loop(r) }}){% endif %}{% endfor %}",
    "{% for r in [1] %}{{ loop([2]) }}{% endfor %}",
    "{% set ns = namespace(k=1) %}{% for i in l if ns.k < 3 %}{{ i }}{% set ns.k = ns.k + 1 %}{% endfor %}{{ ns.k }}",
    "{% for i in l %}{% if i == 2 %}{% continue %}{% endif %}{% if loop.index > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in l %}{% set x = i %}{% endfor %}{{ x is defined }}",
    "{% for i in l %}{% if loop.first %}{% set x = i %}{% endif %}{{ x is defined }}{% endfor %}",
    "{% set x %}a{{ n }}{% endset %}{{ x }}{{ x|length }}",
    "{% set x | upper | indent %}a\nb{% endset %}{{ x }}",
    "{% set ns = namespace() %}{% set ns.x %}a{% endset %}{{ ns.x }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set (a, (b, c)) = (1, (2, 3)) %}{{ a }}{{ b }}{{ c }}",
    "{% set ns = namespace() %}{% set a, ns.b = 1, 2 %}{{ a }}{{ ns.b }}",
    "{% set s.x = 1 %}",
    "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% set true = 1 %}",
    "{% macro m(a, b=a, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}",
    "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, b=2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}x{{ n }}{% endcall %}",
    "{% macro m() %}<{{ caller(1, 2) }}>{% endmacro %}{% call(a, b=3) m() %}{{ a }}{{ b }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(20) }}",
    "{% macro m() %}{{ later }}{% endmacro %}{% set later = 1 %}{{ m() }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% set ns = namespace() %}{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m is callable }}",
    "{% macro m() %}{% endmacro %}{{ m is callable }}{{ m.name }}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% set x = a is defined %}{{ x }}{% macro a() %}{% endmacro %}{{ a is defined }}",
    "{% generation %}a{% set q = 1 %}{% endgeneration %}{{ q }}",
    "{% print n, s %}",
    "{% if 0 %}{{ s|nope }}{% elif 0 is nope %}{% else %}fine{% endif %}",
    "{% if 1 %}{{ s|nope }}{% endif %}",
    "{% include 'x' %}",
    "{% if 0 %}{% include 'x' %}{% import 'a' as b %}{% from 'a' import b, c %}{% endif %}fine",
    "{% set j = joiner('|') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}",
    "{% set c = cycler('x', 'y') %}{% for i in l %}{{ c.next() }}{{ c.current }}{% endfor %}{{ c.reset() }}{{ c.next() }}",
    "{% set g = l|select %}{{ g|first }}{{ g|list }}{{ g|list }}{{ g is iterable }}",
    "{% set g = 1|batch(2)|unique|slice(2) %}{{ g is iterable }}{{ g|float(1.5) }}",
    "{% set g = 1|batch(2)|slice(2) %}{{ g|list }}",
    "{% set g = l|map('string') %}{% for i in g %}{{ i }}{{ loop.last }}{% endfor %}{% for i in g %}x{% else %}read{% endfor %}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "a  {#- c -#}  b {# d #}\nc\n  {# e #}\n",
    "  {%- if 1 +%}\n x {%+ endif -%}\n  y",
    "{{- 1 -}}  {{+ 2 }}\n",
    "a\r\nb\rc\n\n",
    "{{ {'a': {'b': 1}} }}{{ '}}' }}{{ \"%}\" }}",
    "{% set loop = 1 %}{{ loop }}{% for i in [1] %}{{ loop.index }}{% endfor %}",
    "{% set range = 1 %}{{ range }}",
    "{% for i in range(3) %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{{ 'a' if n == 42 }}{{ 'b' if n != 42 }}",
    "{% do l.append(1) %}",
    "{% if x.append(1) %}{% endif %}",
    "{% autoescape_x %}",
    "{% set messages = messages + [1] %}{{ messages|length > 0 }}",
]

FILTERS = """abs batch(2) capitalize center(9) count default('x') dictsort e first float forceescape
indent int items join('-') last length list lower map('string') max min reject reverse round
round(1) safe select slice(2) sort string sum title tojson trim unique upper
wordcount replace('a','b') groupby('k') map(attribute='k') selectattr('w') sort(attribute='v')
tojson(indent=1) default('y',true) urlencode int(3) float(1.5) map('upper')
select('string') reject('none') unique(true) join""".split()
METHODS = """upper() lower() strip() split() title() items() keys() get('b') count('a') index(1)
format(1) splitlines() isdigit() startswith('H') replace('o','0') join(names) copy() values()
zfill(5) capitalize() find('o')""".split()
TESTS = """defined none string number integer float mapping sequence iterable callable lower upper
even odd true false boolean undefined escaped sameas(n) in(l) eq(42)""".split()
OPERATORS = "+ - * / // % ** ~ == != < <= > >= in and or".split()
ATOMS = [*VARIABLES, "nope", "1", "-2", "0.5", "'a'", "[]", "()", "{}", "none", "true", "7 ** 30",
         "('<'|safe)", "l[1:]", "(1, 'x')", "''", "rows[0]"]


# Of powers: whatever is raised to these is computed at once. n ** u64 keeps Python busy for years, which no
# signal ends, where ours refuses it; a negative number to a fraction is complex there.
EXPONENTS = ["0", "2", "3", "n", "-1", "true", "none", "'a'", "nope"]


def expression(source, depth=0):
    kind = source.random()
    if depth > 2 or kind < 0.2:
        return source.choice(ATOMS)
    inner = expression(source, depth + 1)
    if kind < 0.55:
        return f"({inner})|{source.choice(FILTERS)}"
    if kind < 0.65:
        return f"({inner}).{source.choice(METHODS)}"
    if kind < 0.75:
        return f"({inner}) is {source.choice(TESTS)}"
    if kind < 0.8:
        return f"({inner})[{source.choice(['0', '-1', repr('k')])}]"
    operator = source.choice(OPERATORS)
    right = source.choice(EXPONENTS) if operator == "**" else expression(source, depth + 1)
    return f"({inner}) {operator} ({right})"


# What cannot be the same: more memory than either side gives. (Nor slices of constants that have
# none, which jinja2 computes when it compiles, by other rules than when it renders.)
# Nor -2 ** n, which jinja2 computes for (-2) ** n: it puts a constant into Python without its brackets.
def is_comparable(text):
    return text.count("**") < 2 and not re.search(r"\(-2\) \*\* \((n|nope)\)", text)


# What jinja2 before 3.1.6 fails at, which ours follows.
def is_newer(text):
    return "'inf'|int" in text or "{% set a, ns.b" in text


def all_templates(seed, combinations):
    source = random.Random(f"{seed} expressions")
    yield from ("{{ " + line + " }}" for line in EXPRESSIONS.strip().split("\n"))
    yield from TEMPLATES
    made = (expression(source) for _ in range(combinations))
    yield from ("{{ " + text + " }}" for text in made if is_comparable(text))
