"""Sweeps over the template language: every operator, filter, test and method with values and arguments
of every kind, one template each, rendered once for every choice of values.

A sweep is (expression, choices): the expression says a, b and c for values, the choices are indices into
VALUES for each of them."""

import itertools

VALUES = [
    "nope", "none", "true", "false", "0", "1", "-2", "7", "3", "big", "-big", "u64", "0.0", "2.5", "-0.5",
    "2.0", "1e300", "''", "'a'", "s", "'%s|%d'", "'12'", "' 3.7 '", "'A-b c'", "('<b>&'|safe)", "[]",
    "[3, 1, 2]", "['b', 'A', none]", "['b', 'A', 'a']", "[nope, nope]", "()", "(1, 'x')", "('a', 'H')", "{}",
    "{'b': 1, 'A': [1, 2]}", "range(4)", "{'a': 1, 'b': 2}.items()", "{'a': 1, 'b': 2}.keys()",
    "{'a': 1, 'b': 2}.values()", "[1, 0, 2]|map('string')", "namespace(a=1)", "joiner()", "rows",
    "[[1, 'x'], ['b', 2]]",
]  # fmt: skip

ALL = range(len(VALUES))


def of(*texts):
    return [VALUES.index(text) for text in texts]


# Of a kind each: arguments of what takes many.
SOME = of(
    "nope", "none", "true", "0", "1", "-2", "3", "-big", "2.5", "2.0", "''", "'a'", "'12'", "('<b>&'|safe)",
    "[]", "['b', 'A', none]", "(1, 'x')", "('a', 'H')", "{'b': 1, 'A': [1, 2]}",
)  # fmt: skip
FEW = of("nope", "none", "true", "0", "-2", "3", "2.5", "'a'", "('<b>&'|safe)", "[3, 1, 2]")
STRINGS = of("''", "'a'", "s", "'12'", "'A-b c'", "'%s|%d'", "('<b>&'|safe)")
INDICES = of("nope", "none", "true", "0", "1", "-2", "7", "3", "-big", "big", "2.0", "'a'")
# Ours has ranges whose bounds and step fit 64 bits.
STEPS = [i for i in INDICES if "big" not in VALUES[i]]

OPERATORS = ["+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "~"]


def operators():
    for operator in OPERATORS:
        yield f"a {operator} b", itertools.product(ALL, ALL)
    # Of powers: whatever is raised to these is computed at once. A negative number to a fraction is complex,
    # which ours is not.
    yield "a ** b", itertools.product(ALL, [i for i in ALL if VALUES[i] not in ("big", "u64", "1e300")])
    for operator in ("-", "+", "not "):
        yield f"{operator}a", itertools.product(ALL)
    yield "a[b]", itertools.product(ALL, ALL)
    yield "a[b:c]", itertools.product(ALL, INDICES, INDICES)
    yield "a[b::c]", itertools.product(ALL, INDICES, STEPS)
    yield "a[:b:c]", itertools.product(ALL, INDICES, STEPS)
    yield "a if b else c", itertools.product(FEW, ALL, FEW)
    yield "a < b < c", itertools.product(FEW, FEW, FEW)


# Where an argument of 2 ** 80 keeps Python busy, or gives memory that no machine has.
PLAIN_FILTERS = """abs capitalize count dictsort e escape first float forceescape items last length list lower
reverse safe string title trim unique upper urlencode wordcount xmlattr min max sum sort int round join
tojson filesizeformat reject select indent center truncate default d batch slice groupby attr map format
replace selectattr rejectattr fromjson""".split()
FILTERS = """abs(b) batch(b) batch(3,b) batch(b,'x') slice(b) slice(3,b) center(b) default(b) default('x',b)
d(b,c) dictsort(b) dictsort(by=b) dictsort(by='value') dictsort(reverse=true) dictsort(b,'value',true) first(b)
float(b) int(b) int(b,16) int('x',b) int(base=b) indent(b) indent(2,b) indent('>',true,b) indent(width=b)
join(b) join('-',b) join(attribute=b) max(b) max(attribute=b) min(b) min(true,b) groupby(b)
groupby('k',b) groupby('k',default='x',case_sensitive=b) groupby(0) groupby('v') groupby('w')
map(b) map(attribute=b) map(attribute='k',default=b) map('string') map('int',b) map('default',b)
map('first') map('join',b) reject(b) reject('in',b) select(b) select('eq',b) select('odd') select('lt',b)
selectattr(b) selectattr('k',b) selectattr('v','gt',b) rejectattr(b) rejectattr('w','none')
replace(b,'-') replace('a',b) replace('a','-',b) replace('',b) round(b) round(b,'ceil') round(b,'floor')
round(1,b) round(method=b) sort(attribute=b) sort(true,b) sort(reverse=true) sum(b) sum(start=b)
sum('v') sum('v',b) sum(0,b) title(b) tojson(b) tojson(indent=b) tojson(separators=b) tojson(sort_keys=b)
trim(b) truncate(b) truncate(3,b,'') truncate(3,true,b) truncate(3,false,'..',b) truncate(5,leeway=b)
unique(b) unique(attribute=b) unique(true,b) xmlattr(b) attr(b) items(b) length(b) format(b) format(b,c)
format(a=b) string(b) urlencode(b) wordcount(b) filesizeformat(b) e(b) list(b) last(b)""".split()
SLOW_WITH_BIG = ("slice(b)", "round(", "truncate(")


def filters():
    for name in PLAIN_FILTERS:
        yield f"a|{name}", itertools.product(ALL)
    for text in FILTERS:
        if "c)" in text:
            yield f"a|{text}", itertools.product(ALL, FEW, FEW)
        else:
            slow = text.startswith(SLOW_WITH_BIG)
            yield f"a|{text}", itertools.product(ALL, [i for i in SOME if not (slow and "big" in VALUES[i])])


PLAIN_TESTS = """boolean callable defined escaped even false filter float integer iterable lower mapping none
number odd sequence string test true undefined upper""".split()
TESTS = "divisibleby eq ne lt le gt ge in equalto lessthan greaterthan".split()


def tests():
    for name in PLAIN_TESTS:
        yield f"a is {name}", itertools.product(ALL)
        yield f"a is not {name}(b)", itertools.product(ALL, FEW)
    for name in TESTS:
        yield f"a is {name}", itertools.product(ALL)
        yield f"a is {name}(b)", itertools.product(ALL, ALL)


PLAIN_METHODS = """capitalize isalnum isalpha isascii isdecimal isdigit islower isprintable isspace istitle splitlines
isupper lower title upper copy items keys values""".split()
METHODS = """center count endswith find index join ljust lstrip partition removeprefix removesuffix replace
rfind rindex rjust rpartition rsplit rstrip split startswith strip zfill format get""".split()
KEYWORDS = """split(sep=b,maxsplit=c) rsplit(maxsplit=b) strip(chars=b) replace('a',new=b)
count(value=b) get(key=b) get('b',default=c) startswith(prefix=b) center(9,fillchar=b)""".split()


def methods():
    owners = sorted({*STRINGS, *of("[3, 1, 2]", "(1, 'x')", "{'b': 1, 'A': [1, 2]}", "range(4)")})
    for name in PLAIN_METHODS:
        yield f"a.{name}()", itertools.product(owners)
        yield f"a.{name}(b, 1, 2)", itertools.product(owners, FEW)
    for name in METHODS:
        yield f"a.{name}()", itertools.product(owners)
        yield f"a.{name}(b)", itertools.product(owners, SOME)
        yield f"a.{name}(b, c)", itertools.product(owners, SOME, FEW)
        yield f"a.{name}('a', b, c)", itertools.product(owners, FEW, FEW)
    for text in KEYWORDS:
        yield f"a.{text}", itertools.product(owners, FEW, FEW)


PERCENT = """%s %r %a %d %i %u %c %x %X %o %e %E %f %F %g %G %% %5s %-5s| %05d %+d %#x %#o %.2f %.1s %-8.3f| %+.1e
%s%s %(b)s %(b)s%s %s%(b)d %(A(c))s %*d %.*f %(b)*d %5% %z % %5 %(b %ld %08.2f %#g %+x %05s %c%c %5c 100%
%s|%s|%s %.0f %.3d %+05d""".split()
BRACES = """{} {0} {1} {}{} {0}{0} {b} {!r} {!s} {!a} {!x} {:5} {:<5} {:>5} {:^5} {:=5} {:05} {:+} {:-} {:#} {:,}
{:_} {:.2} {:.2f} {:e} {:g} {:n} {:d} {:x} {:#x} {:X} {:o} {:b} {:c} {:s} {:%} {:*^9} {:é<4} {:+,.1f} {:010.3f}
{:{}} {:{}{}} {0.real} {0[b]} {0.b} {0[0][0]} {{}} { } {0 {:5s} {:.1s} {:,d} {:_x} {:,x} {:08,} {:G} {:+.3e}
{:#.3g} {:z} {: } {:.} {:5.1} {:<05} {:#b} {:^+9.2f} {:5d} {!r:>9} {!s:.1}""".split()


def formats():
    for text in PERCENT:
        yield f"{text!r} % a", itertools.product(ALL)
        yield f"({text!r}|safe) % a", itertools.product(ALL)
        yield f"{text!r} % (a, b)", itertools.product(FEW, FEW)
        yield f"({text!r}|safe) % (a, b)", itertools.product(FEW, FEW)
        yield f"{text!r} % {{'b': a, 'A(c)': b}}", itertools.product(FEW, FEW)
    for text in BRACES:
        yield f"{text!r}.format(a)", itertools.product(ALL)
        yield f"({text!r}|safe).format(a)", itertools.product(ALL)
        yield f"{text!r}.format(a, b, b=a)", itertools.product(FEW, FEW)


ATTRIBUTES = """a b items keys real imag numerator denominator upper append grouper list name length index
__class__ _x nope first copy""".split()
CALLS = "range(b) range(b,c) range(a,b,c) dict(b) dict(b,x=c) namespace(b) cycler(b).next() joiner(b)() nope(b)".split()


def others():
    for name in ATTRIBUTES:
        yield f"a.{name}", itertools.product(ALL)
        yield f"a.{name} is defined", itertools.product(ALL)
    for text in CALLS:
        choices = [FEW if name in text else [0] for name in "abc"]
        yield text, itertools.product(*choices)
    yield "a(b)", itertools.product(ALL, FEW)
    yield "a()", itertools.product(ALL)
    yield "dict(a)", itertools.product(ALL)
    yield "dict.fromkeys(a, b)", itertools.product(ALL, FEW)
    yield "joiner(*a)()", itertools.product(ALL)
    yield "dict(**a)", itertools.product(ALL)
    yield "{a: b}", itertools.product(ALL, FEW)
    yield "[a, b][a]", itertools.product(ALL, FEW)


def all_sweeps():
    for sweep in (operators, filters, tests, methods, formats, others):
        yield from sweep()


def template(expression, many=False):
    """Shows the result with its type; `many`: what it iterates over."""
    shown = "[r|list]" if many else "[r]"
    return (
        f"{{% set v = [{', '.join(VALUES)}] %}}"
        "{% set a, b, c = v[i], v[j], v[k] %}"
        f"{{% set r = {expression} %}}{{{{ {shown} }}}}"
    )
