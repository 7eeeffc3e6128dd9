"""Whole templates by seed: statements inside each other, with white space and line ends between them."""

TEXTS = [
    "", "a", " ", "\n", "  ", "\t", "x\r\n", "\n\n", " y ", "é\n  ", "}", "{ ", "\r", "# %", "\n \n", "<b>", "z\n",
]  # fmt: skip
# What is often there, and does not fail; the second of loops, the third of macros.
ATOMS = """n;f;l;names;x;y;z;ns.a;ns.b;i;i;i;l|length;'up'|upper;x|default('-');y|string;[x, y];(x, i);d|list;1;2;
'lit';true;none;[1, 2];{'k': x};range(3)|list;nope;(ns is defined);(loop is defined);(m1 is defined);(i is defined);
(caller is defined);(x is number);s[1:3];x == 1;i in l;not x;7 // 2;s * 2""".replace("\n", "").split(";")
LOOP_ATOMS = """loop.index;loop.first;loop.last;loop.length;loop.revindex0;loop.index0;loop.cycle('o', 'e');
loop.previtem|default('p');loop.nextitem|default('q');loop.depth;loop.changed(x)""".replace("\n", "").split(";")
MACRO_ATOMS = ["caller() if caller", "varargs", "kwargs", "caller is defined", "caller(1) if caller"]
LISTS = ["l", "names", "range(3)", "'ab'", "[]", "[[1, 2], [3]]", "d", "l|select('odd')", "nope", "names[:2]",
         "[1, [2, [3]]]", "l|map('string')"]  # fmt: skip
PAIRS = ["d.items()", "[(1, (2, 3))]", "d|dictsort", "[['k', 'v'], 'ab']", "{'ab': 1}"]
NAMES = ["x", "y", "z", "i"]
MACROS = ["m1", "m2"]
LEVELS = 3


class Writer:
    def __init__(self, random):
        self.random = random
        self.statements = [
            self.text, self.text, self.text, self.output, self.output, self.output, self.set_, self.set_block,
            self.set_attribute, self.if_, self.if_, self.for_, self.for_, self.macro, self.call, self.call_block,
            self.filter_, self.with_, self.raw, self.comment, self.leave, self.block, self.generation, self.nested,
        ]  # fmt: skip
        self.blocks = 0

    def chance(self, share):
        return self.random.random() < share

    def tag(self, inside):
        left, right = self.random.choice(["{%"] * 4 + ["{%-", "{%+"]), self.random.choice(["%}"] * 4 + ["-%}", "+%}"])
        return f"{left} {inside} {right}"

    def atom(self, loop):
        if loop and self.chance(0.3):
            return self.random.choice(LOOP_ATOMS)
        return self.random.choice(ATOMS)

    def expression(self, loop):
        kind = self.random.random()
        if kind < 0.6:
            return self.atom(loop)
        if kind < 0.8:
            return f"{self.atom(loop)} ~ {self.atom(loop)}"
        if kind < 0.9:
            return f"({self.atom(loop)} if {self.atom(loop)} else {self.atom(loop)})"
        return f"({self.atom(loop)}, {self.atom(loop)})|first"

    def body(self, level, loop):
        if level > LEVELS:
            return self.text(level, loop)
        return "".join(self.random.choice(self.statements)(level, loop) for _ in range(self.random.randint(0, 3)))

    def text(self, level, loop):
        return self.random.choice(TEXTS)

    def output(self, level, loop):
        left, right = self.random.choice(["{{"] * 4 + ["{{-", "{{+"]), self.random.choice(["}}"] * 4 + ["-}}"])
        return f"{left} {self.expression(loop)} {right}"

    def comment(self, level, loop):
        return self.random.choice(["{# c #}", "{#- c -#}", "{#-c#}", "{# c -#}", "{#+ {{ x #}", "{##}", "{# \n -#}"])

    def raw(self, level, loop):
        inside = self.random.choice(["{{ x }}", "\n {% if %} ", "  ", "\n"])
        left, right = self.random.choice(["{%", "{%-", "{%+"]), self.random.choice(["%}", "-%}"])
        return f"{left} raw {right}{inside}{left} endraw {right}"

    def set_(self, level, loop):
        if self.chance(0.15):
            return self.tag(f"set {self.random.choice('xzi')}, y = {self.atom(loop)}, {self.atom(loop)}")
        return self.tag(f"set {self.random.choice(NAMES)} = {self.expression(loop)}")

    def set_block(self, level, loop):
        form = self.random.choice(["", "", " | upper", " | trim | title"])
        name = self.random.choice([*NAMES, "ns.b"])
        return self.tag(f"set {name}{form}") + self.body(level + 1, False) + self.tag("endset")

    def set_attribute(self, level, loop):
        return self.tag(f"set ns.{self.random.choice('ab')} = {self.expression(loop)}")

    def if_(self, level, loop):
        out = self.tag(f"if {self.expression(loop)}") + self.body(level + 1, loop)
        while self.chance(0.25):
            out += self.tag(f"elif {self.expression(loop)}") + self.body(level + 1, loop)
        if self.chance(0.4):
            out += self.tag("else") + self.body(level + 1, loop)
        return out + self.tag("endif")

    def for_(self, level, loop):
        head = f"for {self.random.choice('iiix')} in {self.random.choice(LISTS)}"
        if self.chance(0.2):
            head = f"for i, x in {self.random.choice(PAIRS)}"
        if self.chance(0.2):
            head += f" if {self.random.choice(['i', 'i != 3', 'x', 'true', 'i is odd', 'loop is defined'])}"
        recursive = self.chance(0.15)
        out = self.tag(head + (" recursive" if recursive else "")) + self.body(level + 1, True)
        if recursive:
            out += "{% if i is sequence and i is not string and i is not mapping %}{{ loop(i) }}{% endif %}"
        if self.chance(0.25):
            out += self.tag("else") + self.body(level + 1, loop)
        return out + self.tag("endfor")

    def leave(self, level, loop):
        if not loop:
            return ""
        return "{% if " + self.random.choice(["loop.last", "i == 1", "loop.index > 1"]) + " %}" + self.tag(
            self.random.choice(["break", "continue"])
        ) + "{% endif %}"

    def macro(self, level, loop):
        head = self.random.choice(["", "x", "x, y=1", "x, y=x", "i='d'", "x, y"])
        name = self.random.choice(MACROS)
        inside = self.body(level + 1, False) + f"{{{{ {self.random.choice([*MACRO_ATOMS, 'x'])} }}}}"
        return self.tag(f"macro {name}({head})") + inside + self.tag("endmacro")

    def arguments(self):
        return self.random.choice(["", "1", "x", "1, 2", "x=3", "1, y='k'", "1, 2, 3", "*l", "**{'x': 4}", "1, w=5"])

    def call(self, level, loop):
        name = self.random.choice(MACROS)
        if self.chance(0.7):
            return f"{{% if {name} %}}{{{{ {name}({self.arguments()}) }}}}{{% endif %}}"
        return f"{{{{ {name}({self.arguments()}) }}}}"

    def call_block(self, level, loop):
        name = self.random.choice(MACROS)
        parameters = self.random.choice(["", "", "(x)", "(x='e')"])
        inside = self.tag(f"call{parameters} {name}({self.arguments()})") + self.body(level + 1, False)
        inside += self.tag("endcall")
        return f"{{% if {name} %}}{inside}{{% endif %}}"

    def filter_(self, level, loop):
        form = self.random.choice(["upper", "trim", "replace('a', 'b')", "indent(2)|trim", "list|length", "list|join('.')"])
        return self.tag(f"filter {form}") + self.body(level + 1, False) + self.tag("endfilter")

    def with_(self, level, loop):
        head = self.random.choice(["", "x = 5", "x = y, y = x", "i = x", "ns = namespace(a=0, b=1)"])
        return self.tag(f"with {head}") + self.body(level + 1, loop) + self.tag("endwith")

    def block(self, level, loop):
        self.blocks += 1
        scoped = self.random.choice(["", " scoped"])
        return self.tag(f"block b{self.blocks}{scoped}") + self.body(level + 1, False) + self.tag("endblock")

    def generation(self, level, loop):
        return self.tag("generation") + self.body(level + 1, False) + self.tag("endgeneration")

    def nested(self, level, loop):
        return self.body(level + 1, loop)


def whole_template(random):
    """A template that is defined by the state of `random`."""
    writer = Writer(random)
    start = writer.tag("set ns = namespace(a=1, b='b')") if writer.chance(0.9) else ""
    return start + "".join(writer.body(1, False) for _ in range(random.randint(1, 4)))
