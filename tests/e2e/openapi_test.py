#!/usr/bin/env python3
"""The document of the gateway's HTTP port: every path of it is answered, with those methods and for those callers, and the
tables in docs/API.md say what it says.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/openapi_test.py [--write]     (--write: into docs/API.md)
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from harness import BINARIES, SOURCE, clean_environment, wait_until
from http_client import Gateway

PAGE = os.path.join(SOURCE, "docs", "API.md")
BEGIN, END = "<!-- made from /openapi.json -->\n", "<!-- end of what is made -->\n"
# How tables name the bodies.
NAMES = {"ChatRequest": "chat", "CompletionRequest": "completions", "ResponseRequest": "responses", "MessageRequest": "messages",
         "CountRequest": "count", "IdsRequest": "generate", "TokenizeRequest": "tokenize", "DetokenizeRequest": "detokenize"}
CALLERS = {"anybody": "anybody", "key": "callers", "operator": "operators"}
KEY = "a-long-random-key"


def kind(schema):
    """A schema in a word or two."""
    if "anyOf" in schema:
        return " or ".join(kind(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return "list of " + kind(schema["items"])
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"integer, {low} to {high}"
    if low is not None or high is not None:
        return f"integer, {low} or more" if high is None else f"integer, {high} or less"
    return schema.get("type", "anything")


def paths_table(document):
    lines = ["| path | for | what |", "|---|---|---|"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", "")
            named = f" ({NAMES[body.rsplit('/', 1)[1]]})" if body else ""
            lines.append(f"| `{method.upper()} {path}`{named} | {CALLERS[operation['x-tutti-caller']]} | {operation['summary']} |")
    return lines


def fields(document):
    """[(name, schema, bodies that have it so)], alphabetically."""
    found = {}
    for body, schema in document["components"]["schemas"].items():
        for name, field in schema["properties"].items():
            found.setdefault((name, json.dumps(field)), []).append(NAMES[body] + ("*" if name in schema.get("required", ()) else ""))
    return [(name, json.loads(field), bodies) for (name, field), bodies in sorted(found.items())]


def fields_tables(document):
    lines = ["| field | type | of | what |", "|---|---|---|---|"]
    rows = {}
    for name, schema, bodies in fields(document):
        if "x-tutti-ignored" not in schema and "x-tutti-refused" not in schema:
            rows.setdefault((name, kind(schema), schema["description"]), []).extend(bodies)
    order = list(NAMES.values())
    for (name, one, words), bodies in rows.items():
        bodies.sort(key=lambda body: order.index(body.rstrip("*")))
        lines.append(f"| `{name}` | {one} | {', '.join(bodies)} | {words} |")
    lines += ["", "Taken, and no answer depends on them: " + ", ".join(
        f"`{name}`" for name in sorted({name for name, schema, _ in fields(document) if "x-tutti-ignored" in schema})) + ".", "",
              "| refused | of | what to do |", "|---|---|---|"]
    for name, schema, bodies in fields(document):
        if "x-tutti-refused" in schema:
            lines.append(f"| `{name}` | {', '.join(bodies)} | {schema['description'].split(': ', 1)[1]} |")
    return lines


def folded(line, width=140):
    """A paragraph in lines of that width; a row of a table as it is."""
    if line.startswith("|"):
        return [line]
    lines = [""]
    for word in line.split(" "):
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def tables(document):
    lines = [*paths_table(document), "", *fields_tables(document)]
    return "".join(part + "\n" for line in lines for part in folded(line))


class Document(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tutti-openapi-")
        cls.addClassCleanup(cls.folder.cleanup)
        ready = os.path.join(cls.folder.name, "ready")
        # Nobody is at the coordinator's address: a document needs none.
        cls.process = subprocess.Popen([os.path.join(BINARIES, "tutti-gateway"), "--coordinator", "127.0.0.1:1", "--listen",
                                        "127.0.0.1:0", "--ready-file", ready], stderr=subprocess.DEVNULL,
                                       env=clean_environment(TUTTI_API_KEY=KEY))
        cls.addClassCleanup(cls.process.wait)
        cls.addClassCleanup(cls.process.kill)
        wait_until(lambda: os.path.exists(ready), "the gateway listens")
        with open(ready, encoding="utf-8") as file:
            cls.gateway = Gateway(json.load(file)["address"])
        answer = cls.gateway.get("/openapi.json")
        assert answer.status == 200 and answer.headers["content-type"] == "application/json", answer.body
        cls.document = answer.json()

    def test_paths_are_answered_by_those_methods_for_those_callers(self):
        for path, operations in self.document["paths"].items():
            place = path.replace("{name}", "demo")
            for method, operation in operations.items():
                if path == "/tutti/live":  # a stream without end
                    continue
                answer = self.gateway.request(method.upper(), place)
                self.assertEqual(answer.status == 401, operation["x-tutti-caller"] != "anybody", (path, answer.body))
                answer = self.gateway.request(method.upper(), place, Authorization=f"Bearer {KEY}")
                self.assertNotIn(answer.status, (401, 403, 404, 405), path)
            if path.startswith("/tutti/"):
                continue
            answer = self.gateway.request("DELETE", place, Authorization=f"Bearer {KEY}")
            self.assertEqual(answer.status, 405, path)
            self.assertEqual({*answer.headers["Allow"].split(", ")}, {"OPTIONS", *map(str.upper, operations)})

    def test_refer_to_schemas_that_are_there(self):
        named = {word for word in json.dumps(self.document).split('"') if word.startswith("#/")}
        self.assertEqual({name.rsplit("/", 1)[1] for name in named}, set(self.document["components"]["schemas"]))
        self.assertEqual(set(NAMES), set(self.document["components"]["schemas"]))

    def test_the_page_says_what_it_says(self):
        with open(PAGE, encoding="utf-8") as file:
            head, rest = file.read().split(BEGIN)
        written, tail = rest.split(END)
        made = "\n" + tables(self.document) + "\n"
        if WRITE:
            with open(PAGE, "w", encoding="utf-8") as file:
                file.write(head + BEGIN + made + END + tail)
        else:
            self.assertEqual(written, made, "tests/e2e/openapi_test.py --write writes it")


WRITE = "--write" in sys.argv
if __name__ == "__main__":
    unittest.main(verbosity=2, argv=[word for word in sys.argv if word != "--write"])
