"""Namespaces, types, constants and functions of one C++ file, found by its braces.

No compiler: at namespace and class scope the text before a `{` or `;` says what begins there
(cpp_heads.py); a function's body is skipped as a whole. Both branches of an `#if` are read.
"""
import re

from cpp_heads import (AHEAD, LABEL, LAMBDA, LINKAGE, NAMESPACE, FunctionHead, flatten, type_of,
                       without_template)

_MARK = re.compile(r"[{}();]")
_BRACE = re.compile(r"[{}]")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*(?:\[[^\]]*\]\s*)*$")
_NOT_SPACE = re.compile(r"\S")
# How far before a `{` a lambda's `[` is looked for.
_LAMBDA_HEAD = 400


class Definition:
    """One definition. Kinds: type, alias, constant, function, lambda (one outside of functions).

    `namespace` is a tuple of names, "" for an anonymous one; `inside` the classes around it;
    `signature` tells overloads apart; `internal`: the linker never sees two of it.
    """

    def __init__(self, kind, name, namespace, inside, lines):
        self.kind, self.name, self.namespace, self.inside = kind, name, namespace, inside
        self.line, self.end_line = lines
        self.signature, self.internal = "", False

    @property
    def lines(self):
        return self.end_line - self.line + 1


class Namespace:
    """One opened namespace block: its full name as a tuple, "" for an anonymous part.

    `used` is false when it holds nothing but other namespaces and types declared ahead.
    """

    def __init__(self, line, names):
        self.line, self.names, self.used = line, names, False


class Outline:
    """All definitions of one file. `balanced` is false when its braces do not pair up."""

    def __init__(self, source):
        self.source, self.code = source, source.code
        self.definitions = []
        self.namespaces = []
        self.balanced = True
        self._scopes = []  # (kind, names, Namespace or None); kinds: namespace, extern, type
        self._read()

    def _read(self):
        position, start, parens = 0, 0, 0
        while match := _MARK.search(self.code, position):
            mark, at, position = match.group(), match.start(), match.end()
            if mark == "(":
                parens += 1
            elif mark == ")":
                parens -= 1
            elif mark == "{" and parens:
                position = self._skip(at)
                self._lambda(start, at, position)
            elif mark == ";" and not parens:
                self._statement(start, at)
                start = position
            elif mark == "{":
                position, start = self._open(start, at)
            elif mark == "}":
                if not self._scopes or parens:
                    self.balanced = False
                    return
                self._scopes.pop()
                start = position
        self.balanced = self.balanced and not self._scopes and not parens

    def _open(self, start, at):
        """Reads what the `{` at `at` begins; where to read on, and where the next head starts."""
        head = LABEL.sub("", self.code[start:at])
        if namespace := NAMESPACE.match(head):
            names = tuple(namespace.group(1).split("::"))
            self.namespaces.append(Namespace(self.source.line(at), self._namespace() + names))
            self._scopes.append(("namespace", names, self.namespaces[-1]))
            return at + 1, at + 1
        if LINKAGE.match(head):
            self._scopes.append(("extern", (), None))
            return at + 1, at + 1
        self._mark_used()
        if found := type_of(without_template(head)):
            return self._open_type(found, start, at)
        end = self._skip(at)
        function = FunctionHead(head)
        if function.name and not function.is_member_initializer:
            self._add_function(function, start, end - 1)
            return end, end
        if not function.is_member_initializer:
            self._lambda(start, at, end)
        return end, start

    def _open_type(self, found, start, at):
        keyword, name = found
        end = self._skip(at)
        self._add("type", name, start, end - 1)
        if keyword == "enum":
            return end, end
        self._scopes.append(("type", (name,), None))
        return at + 1, at + 1

    def _skip(self, at):
        """The position after the `}` that closes the `{` at `at`."""
        depth = 0
        for match in _BRACE.finditer(self.code, at):
            depth += 1 if match.group() == "{" else -1
            if depth == 0:
                return match.end()
        self.balanced = False
        return len(self.code)

    def _lambda(self, start, at, end):
        """A lambda of an initializer or argument outside of functions counts as a function."""
        match = LAMBDA.search(self.code, max(start, at - _LAMBDA_HEAD), at)
        if match:
            self._add("lambda", "lambda", match.start(), end - 1)

    def _statement(self, start, at):
        """A declaration up to `;`: aliases, variables and defaulted functions define something."""
        head = self.code[start:at]
        words = head.split(None, 1)
        if self._in("type") or not words:
            return
        bare = without_template(head)
        if not AHEAD.match(bare):
            self._mark_used()
        if words[0] in ("friend", "static_assert", "namespace"):
            return
        if bare is head and words[0] == "template":
            return  # an explicit instantiation
        alias = (re.match(r"\s*using\s+(\w+)\s*=", bare)
                 or re.match(r"\s*typedef\b.*?(\w+)\s*$", bare, re.DOTALL))
        if alias:
            self._add("alias", alias.group(1), start, at)
        elif not re.match(r"\s*(using|class|struct|union|enum)\b", bare):
            self._variable(head, bare, start, at)

    def _variable(self, head, bare, start, at):
        brace = bare.find("{")
        flat, _ = flatten(bare if brace < 0 else bare[:brace])
        left, equals, right = flat.partition("=")
        if equals and right.strip() in ("default", "delete"):
            self._add_function(FunctionHead(head[:head.rindex("=")]), start, at)
        elif equals or brace >= 0 or ("(" not in flat and not re.match(r"\s*extern\b", flat)):
            name = _ASSIGNED.search(left)
            if name and len(left.split()) > 1:
                self._add("constant", name.group(1), start, at).internal = "static" in left.split()

    def _add_function(self, function, start, end):
        definition = self._add("function", function.name, start, end)
        definition.signature = function.signature
        definition.internal = function.is_internal or self._in("extern")

    def _add(self, kind, name, start, end):
        label = LABEL.match(self.code[start:end])
        first = _NOT_SPACE.search(self.code, start + label.end() if label else start)
        lines = self.source.line(first.start() if first else start), self.source.line(end)
        self.definitions.append(Definition(kind, name, self._namespace(), self._inside(), lines))
        return self.definitions[-1]

    def _mark_used(self):
        if self._scopes and self._scopes[-1][2]:
            self._scopes[-1][2].used = True

    def _namespace(self):
        return tuple(name for kind, names, _ in self._scopes if kind == "namespace"
                     for name in names)

    def _inside(self):
        return tuple(name for kind, names, _ in self._scopes if kind == "type" for name in names)

    def _in(self, kind):
        return any(scope[0] == kind for scope in self._scopes)
