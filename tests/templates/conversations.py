"""Conversations made up from a seed, as clients send them: roles in and out of order, contents of
every kind, tools, and the variables that published templates ask for."""

TEXTS = [
    "", " ", "Hi", "  What is 2 + 2?  ", "line one\nline two\n", "<|im_end|>", "ümläut ß İ ΣΑΣ ﬁ",
    "<think>\nhm\n</think>\n\nanswer", "</think>after", "<think>open", "a<b & c>d \"q\" 'r'",
    "{{ not a template }}", "100% of {x}", "日本語のテキスト", "👍🏽 ok", "\ttab\r\nwindows",
    "<tool_response>x</tool_response>", "[TOOL_CALLS]", "word " * 20, "é decomposed",
]
NAMES = ["get_weather", "search", "a.b", "run-code", "π"]
ROLES = ["system", "user", "assistant", "tool", "user", "assistant", "developer"]


def scalar(random):
    return random.choice(
        [0, 1, -7, 2**63, -(2**70), 1.5, 1e20, 1e-7, True, False, None, "text", "", "ß\n\"x\""]
    )


def value(random, depth=0):
    kind = random.random()
    if depth > 2 or kind < 0.6:
        return scalar(random)
    if kind < 0.8:
        return [value(random, depth + 1) for _ in range(random.randint(0, 3))]
    return {random.choice("abcXYZ_"): value(random, depth + 1) for _ in range(random.randint(0, 3))}


def schema(random, depth=0):
    kind = random.choice(["string", "integer", "number", "boolean", "array", "object"])
    found = {"type": kind if random.random() < 0.9 else [kind, "null"]}
    if random.random() < 0.5:
        found["description"] = random.choice(TEXTS)
    if random.random() < 0.2:
        found["enum"] = [random.choice(["a", "b", "c"]) for _ in range(2)]
    if random.random() < 0.2:
        found["default"] = scalar(random)
    if random.random() < 0.1:
        found["nullable"] = True
    if kind == "array" and depth < 2:
        found["items"] = schema(random, depth + 1)
    if kind == "object" and depth < 2:
        found["properties"] = {
            name: schema(random, depth + 1) for name in random.sample(["x", "Y", "z_1"], 2)
        }
        if random.random() < 0.6:
            found["required"] = ["x"]
    return found


def tool(random):
    parameters = {
        "type": "object",
        "properties": {n: schema(random) for n in random.sample(["city", "Unit", "n"], 2)},
    }
    if random.random() < 0.7:
        parameters["required"] = random.sample(list(parameters["properties"]), 1)
    function = {"name": random.choice(NAMES), "description": random.choice(TEXTS)}
    if random.random() < 0.9:
        function["parameters"] = parameters
    if random.random() < 0.2:
        function["return"] = {"type": "string", "description": "what it gives"}
    if random.random() < 0.1:
        return function
    return {"type": "function", "function": function}


def content(random, role):
    kind = random.random()
    if kind < 0.75:
        return random.choice(TEXTS)
    if kind < 0.8:
        return None
    parts = [{"type": "text", "text": random.choice(TEXTS)} for _ in range(random.randint(0, 3))]
    if role == "user" and random.random() < 0.2:
        parts.insert(0, {"type": "image"})
    return parts


def call(random):
    arguments = {random.choice(["city", "n"]): value(random) for _ in range(random.randint(0, 2))}
    function = {"name": random.choice(NAMES), "arguments": arguments}
    if random.random() < 0.1:
        function["arguments"] = '{"city": "Bonn"}'
    made = {"type": "function", "function": function}
    if random.random() < 0.7:
        made["id"] = random.choice(["call_1", "abcdefghi", "123456789", "functions.search:0"])
    if random.random() < 0.05:
        return function
    return made


def message(random, role):
    made = {"role": role}
    if random.random() < 0.95:
        made["content"] = content(random, role)
    if role == "assistant":
        if random.random() < 0.3:
            made["tool_calls"] = [call(random) for _ in range(random.randint(0, 3))]
        if random.random() < 0.2:
            made["reasoning_content"] = random.choice(TEXTS)
        if random.random() < 0.05:
            made["thinking"] = random.choice(TEXTS)
    if role == "tool":
        if random.random() < 0.7:
            made["tool_call_id"] = random.choice(["call_1", "abcdefghi", "functions.search:0"])
        if random.random() < 0.5:
            made["name"] = random.choice(NAMES)
    return made


def orderly(random):
    """system? (user (assistant tool*)?)* as most templates demand."""
    roles = ["system"] if random.random() < 0.4 else []
    for _ in range(random.randint(1, 4)):
        roles.append("user")
        if random.random() < 0.9:
            roles.append("assistant")
            roles += ["tool"] * random.choice([0, 0, 0, 1, 2])
            if roles[-1] == "tool":
                roles.append("assistant")
    return roles


def conversation(random):
    """(messages, kwargs)"""
    if random.random() < 0.75:
        roles = orderly(random)
    else:
        roles = [random.choice(ROLES) for _ in range(random.randint(0, 6))]
    messages = [message(random, role) for role in roles]
    if random.random() < 0.4:  # plain ones, which templates of few words take
        for one in messages:
            one["content"] = random.choice(TEXTS)
    kwargs = {"add_generation_prompt": random.random() < 0.6}
    if random.random() < 0.35:
        kwargs["tools"] = [tool(random) for _ in range(random.randint(0, 3))]
    for name in ("enable_thinking", "thinking", "keep_past_thinking", "preserve_thinking"):
        if random.random() < 0.15:
            kwargs[name] = random.random() < 0.5
    if random.random() < 0.1:
        kwargs["reasoning_effort"] = random.choice(["low", "medium", "high", "none"])
    if random.random() < 0.1:
        kwargs["documents"] = [{"title": "T", "text": random.choice(TEXTS)}]
    if random.random() < 0.1:
        kwargs["date_string"] = "26 Jul 2024"
    if random.random() < 0.1:
        kwargs["tools_in_user_message"] = random.random() < 0.5
    return messages, kwargs
