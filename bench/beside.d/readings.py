"""What the programs print, as numbers. Whatever is not as expected is a Reading error that quotes it."""
import json
import re


class ReadingError(Exception):
    """A program printed something else than this script can read."""


def _quoted(text):
    text = text.strip()
    return "nothing" if not text else repr(text if len(text) <= 400 else text[:200] + " ... " + text[-200:])


def probe(text):
    """kernels_bench's line: {"read": GB/s} and GFLOP/s of each kind of product that it names, "best" among them."""
    line = re.search(r"^probe: read ([\d.]+) GB/s(.*)$", text, re.MULTILINE)
    if line is None:
        raise ReadingError(f"no line `probe: read ...` in what kernels_bench printed: {_quoted(text)}")
    found = {"read": float(line.group(1))}
    for name, value in re.findall(r", ([a-z0-9 ]+?) ([\d.]+) GFLOP/s", line.group(2)):
        found[name] = float(value)
    return found


def _positive(value, what, text):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ReadingError(f"{what} is {value!r} in {_quoted(text)}")
    return float(value)


def tutti_local(text, field):
    """Tokens/s of `tutti-bench local --json`, and its share of the nearer limit that was probed between the steps: field is
    "prefill" or "decode"."""
    try:
        report = json.loads(text)
    except ValueError as error:
        raise ReadingError(f"tutti-bench printed no JSON ({error}): {_quoted(text)}") from None
    values = []
    for name in (f"{field}_tokens_per_second", f"{field}_share"):
        if not isinstance(report, dict) or name not in report:
            raise ReadingError(f"no {name} in what tutti-bench printed: {_quoted(text)}")
        values.append(_positive(report[name], name, text))
    return tuple(values)


def llama_bench(text, *, prompt=0, generated=0, depth=0):
    """tokens/s of the one test of these sizes in `llama-bench -o json`; lines of the log before it are passed over."""
    begin = text.find("[\n")
    try:
        tests = json.loads(text[max(begin, 0):])
    except ValueError as error:
        raise ReadingError(f"llama-bench printed no JSON ({error}): {_quoted(text)}") from None
    wanted = {"n_prompt": prompt, "n_gen": generated, "n_depth": depth}
    found = [test for test in tests if isinstance(test, dict)
             and all(test.get(name, 0) == value for name, value in wanted.items())]
    if len(found) != 1:
        raise ReadingError(f"{len(found)} tests of {wanted} in what llama-bench printed: {_quoted(text)}")
    return _positive(found[0].get("avg_ts"), "avg_ts", text)


def llama_batched(text, sequences):
    """Generated tokens/s of so many sequences in the table of llama-batched-bench."""
    names, rows = None, []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.lstrip().startswith("|") else []
        if "S_TG t/s" in cells:
            names = cells
        elif names is not None and len(cells) == len(names) and re.fullmatch(r"\d+", cells[0]):
            rows.append(dict(zip(names, cells)))
    found = [row for row in rows if row.get("B") == str(sequences)]
    if len(found) != 1:
        raise ReadingError(f"{len(found)} rows of {sequences} sequences in what llama-batched-bench printed: "
                           f"{_quoted(text)}")
    try:
        value = float(found[0]["S_TG t/s"])
    except ValueError:
        raise ReadingError(f"S_TG is {found[0]['S_TG t/s']!r} in {_quoted(text)}") from None
    return _positive(value, "S_TG", text)


def event(line):
    """A line of a stream of events: None where it is no data, "[DONE]", or whether it brings tokens.

    An error within the stream is a ReadingError.
    """
    text = line.decode("utf-8", "replace").strip()
    if not text.startswith("data:"):
        return None
    data = text[len("data:"):].strip()
    if data == "[DONE]":
        return data
    try:
        message = json.loads(data)
    except ValueError:
        raise ReadingError(f"an event is no JSON: {_quoted(data)}") from None
    if "error" in message:
        raise ReadingError(f"the stream ends with an error: {_quoted(json.dumps(message['error']))}")
    # The last event of llama-server has no text, the usage and timings only.
    return any(choice.get("text") for choice in message.get("choices", []))


def driver(line, name, kind):
    """The member of this name and type in a driver's line; its "error" is a ReadingError."""
    try:
        message = json.loads(line)
    except ValueError as error:
        raise ReadingError(f"the driver said no JSON ({error}): {_quoted(line)}") from None
    if isinstance(message, dict) and "error" in message:
        raise ReadingError(str(message["error"]))
    if not isinstance(message, dict) or not isinstance(message.get(name), kind):
        raise ReadingError(f"no {name} in what the driver said: {_quoted(line)}")
    return message[name]


def token_times(times, answers, tokens):
    """One list of so many ascending times for each answer."""
    counts = [len(one) if isinstance(one, list) else None for one in times]
    if counts != [tokens] * answers:
        raise ReadingError(f"answers of {counts} tokens instead of {answers} of {tokens}")
    for one in times:
        if not all(isinstance(time, (int, float)) for time in one) or one[0] <= 0 or one != sorted(one):
            raise ReadingError(f"times that do not ascend from 0: {_quoted(json.dumps(one))}")
    return times
