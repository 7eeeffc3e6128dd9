"""What the text before a `{` or a `;` declares: a type, a function, and under which name.

A head is that text from the end of the declaration before it, comments and strings already blank.
"""
import re

LABEL = re.compile(r"^\s*(?:(?:public|private|protected)\s*:(?!:)\s*)+")
NAMESPACE = re.compile(r"^\s*(?:inline\s+)?namespace\b\s*(?:\[\[.*?\]\]\s*)?([\w:]*)\s*$")
LINKAGE = re.compile(r'^\s*extern\s*"\s*"\s*$')
# A type that is only declared: its definition is elsewhere.
AHEAD = re.compile(r"^\s*(?:class|struct|union|enum)\b[^{}()=]*$")
LAMBDA = re.compile(r"(\[[^\[\]]*\])\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*"
                    r"(?:mutable|noexcept|constexpr|\s)*(?:->[^;{}()]*)?$")
_TYPE = re.compile(r"^\s*(?:(?:typedef|static|const|constexpr|inline)\s+)*"
                   r"(class|struct|union|enum)\b")
_TYPE_NAME = re.compile(
    r"^(?:class|struct)?\s*"
    r"(?:\[\[.*?\]\]\s*|[A-Z][A-Z0-9_]+(?:\(\d+\))?\s+|(?:alignas|__attribute__)\(\d+\)\s*)*"
    r"([A-Za-z_]\w*(?:\s*<.*?>)?(?:::[A-Za-z_]\w*)*)?", re.DOTALL)
_OPERATOR = re.compile(r'\boperator\s*(\(\s*\)|\[\s*\]|[-+*/%^&|~!=<>,]+|""\s*\w+)')
_OPERATOR_WORD = re.compile(r"\boperator((?:_\d+)+)$")
_ANGLES = re.compile(r"<[^<>]*>")
_CALL = re.compile(r"((?:[A-Za-z_]\w*\s*::\s*)*~?[A-Za-z_]\w*)\s*\((\d+)\)")
_CONSTRUCTS = re.compile(r"\)\s*(?:noexcept\s*(?:\(\d+\))?\s*)?:(?!:)")
_ONE_COLON = re.compile(r"(?<!:):(?!:)")
_NOT_NAMES = {"alignas", "decltype", "__attribute__", "__launch_bounds__", "noexcept", "requires",
              "explicit", "__declspec"}
_ALL_CAPS = re.compile(r"^[A-Z][A-Z0-9_]*$")


class FunctionHead:
    """A head as a function's: its name (None when it is no function) and its signature."""

    def __init__(self, head):
        flat, groups = flatten(head)
        flat = flat.strip()
        constructs = _CONSTRUCTS.search(flat)
        signature = flat[:constructs.start() + 1] if constructs else flat
        self.name, self.signature = None, ""
        # A C function's name is part of an interface that others chose.
        self.is_internal = "static" in signature.split() or flat.startswith('extern "')
        # The `{` after `member` in a constructor's list begins no body.
        self.is_member_initializer = bool(constructs) and flat[-1] not in ")}"
        if "=" in signature or "{" in signature or "(" not in signature:
            return
        calls = [call for call in _CALL.finditer(signature) if call.group(1) not in _NOT_NAMES]
        # Macros may stand before and behind a name; alone, as in TEST(A, B), one is the name.
        named = [call for call in calls if not _ALL_CAPS.match(call.group(1))] or calls
        if not named:
            return
        call = named[0]
        self.name = _OPERATOR_WORD.sub(_signs_of_operator, re.sub(r"\s", "", call.group(1)))
        rest = re.sub(r"\(\d+\)", "()", signature[call.end():])
        self.signature = _parameter_types(groups[int(call.group(2))]) + " ".join(rest.split())
        if re.match(r"\s*template\s*<\s*>", head):  # a specialization: the head has its arguments
            self.signature += " of " + " ".join(head.split())


def type_of(bare):
    """(keyword, name) of the type that a head without its template part defines, or None."""
    match = _TYPE.match(bare)
    if not match or _is_function_of_type(bare):
        return None
    flat, _ = flatten(_ONE_COLON.split(bare[match.end():])[0], keep_angles=True)
    name = _TYPE_NAME.match(flat.strip()).group(1)
    keyword = match.group(1)
    return keyword, re.sub(r"\s", "", name) if name else f"({keyword} without a name)"


def _is_function_of_type(bare):
    """Whether `struct X F(...) {` is a function: parentheses before any base class."""
    flat, _ = flatten(bare)
    flat = re.sub(r"\b(?:alignas|__attribute__)\s*\(\d+\)|\b[A-Z][A-Z0-9_]+\(\d+\)", "", flat)
    return "(" in _ONE_COLON.split(flat)[0] or "=" in flat


def without_template(head):
    """`head` without its leading `template <...>`; `head` itself when there is none."""
    match = re.match(r"\s*template\s*<", head)
    if not match:
        return head
    depth = 1
    for bracket in re.finditer(r"[<>]", head[match.end():]):
        depth += 1 if bracket.group() == "<" else -1
        if depth == 0:
            return without_template(head[match.end() + bracket.end():])
    return head


def flatten(head, keep_angles=False):
    """`head` with outer (...) as (n) and without template arguments; and the texts in (...)."""
    head = _OPERATOR.sub(_name_of_operator, head)
    parts, groups, depth, start = [], [], 0, 0
    for match in re.finditer(r"[()]", head):
        if match.group() == "(":
            if depth == 0:
                parts.append(head[start:match.start()] + f"({len(groups)})")
                start = match.end()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                groups.append(head[start:match.start()])
                start = match.end()
    flat = "".join(parts) + (head[start:] if depth == 0 else "")
    flat = flat.replace("->", " returns ")
    while not keep_angles and "<" in flat:
        shorter = _ANGLES.sub("", flat)
        if shorter == flat:
            break
        flat = shorter
    return flat, groups


def _name_of_operator(match):
    """`operator==` as one word, so that its signs are not taken for others."""
    return "operator" + "".join(f"_{ord(char)}" for char in re.sub(r"\s", "", match.group(1)))


def _signs_of_operator(match):
    return "operator" + "".join(chr(int(code)) for code in match.group(1).split("_")[1:])


def _parameter_types(parameters):
    """The types of a parameter list, names and default values dropped, in one line."""
    types, depth, start = [], 0, 0
    for match in re.finditer(r"[<>(){}\[\],]", parameters):
        char = match.group()
        if char in "<({[":
            depth += 1
        elif char != ",":
            depth -= 1
        elif depth == 0:
            types.append(parameters[start:match.start()])
            start = match.end()
    types.append(parameters[start:])
    return "(" + ", ".join(_parameter_type(text) for text in types) + ")"


def _parameter_type(text):
    text = " ".join(text.split("=")[0].split())
    shorter = re.sub(r"(?<=[\s&*>])[A-Za-z_]\w*(?=(?:\s*\[[^\]]*\])*$)", "", text).strip()
    return text if shorter in ("", "const", "volatile", "unsigned", "signed") else shorter
