#!/usr/bin/env python3
"""Answers by a grammar through gateways in front of a real cluster: formats and forced calls in each form that models write,
whole and streamed, gone on with on another gateway, and refusals that name the caller's field."""
import json
import os
import subprocess
import unittest

from harness import BINARIES, Cluster, clean_environment, wait_until
from http_client import Gateway, text_of

CHAT, COMPLETION, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
FORMS = ("hermes", "qwen3_coder", "llama3_json", "chatglm3")
ASK = {"messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 1, "seed": 3, "max_tokens": 700}
SCHEMA = {"type": "object", "properties": {"zone": {"enum": ["north", "south"]}, "at": {"type": "integer", "minimum": 0,
                                                                                      "maximum": 99},
                                           "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 2}},
          "required": ["zone", "at", "tags"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
CODE = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^[A-F]{3}$"}, "exact": {"type": "boolean"}},
        "required": ["code"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "go_to", "strict": True, "parameters": SCHEMA}},
         {"type": "function", "function": {"name": "say", "strict": True, "parameters": CODE}}]


def is_place(value):
    return (list(value) == ["zone", "at", "tags"] and value["zone"] in ("north", "south") and 0 <= value["at"] <= 99 and
            len(value["tags"]) <= 2 and all(len(tag) <= 4 for tag in value["tags"]))


def is_code(value):
    return (set(value) <= {"code", "exact"} and len(value["code"]) == 3 and set(value["code"]) <= set("ABCDEF") and
            isinstance(value.get("exact", True), bool))


RIGHT = {"go_to": is_place, "say": is_code}


class GrammarTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--http", "127.0.0.1:0", workers=2)
        cls.addClassCleanup(cls.cluster.cleanup)
        cls.gateway = Gateway(cls.cluster.http)
        cls.of_form = {form: cls.start(form) for form in FORMS}
        for gateway in (cls.gateway, *cls.of_form.values()):
            wait_until(lambda g=gateway: g.get("/health").status == 200, "the gateway is healthy")

    @classmethod
    def start(cls, form):
        """A gateway that looks for calls in the form."""
        ready = os.path.join(cls.cluster.dir.name, form + ".json")
        process = subprocess.Popen([os.path.join(BINARIES, "tutti-gateway"), "--coordinator", cls.cluster.address, "--listen",
                                    "127.0.0.1:0", "--tool-parser", form, "--ready-file", ready],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)
        wait_until(lambda: os.path.exists(ready), "the gateway listens")
        with open(ready, encoding="utf-8") as file:
            return Gateway(json.load(file)["address"])

    def ok(self, gateway, path, fields):
        answer = gateway.post(path, fields)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def test_formats_whole_and_streamed(self):
        fields = {**ASK, "response_format": FORMAT, "n": 2}
        whole = self.ok(self.gateway, CHAT, fields)
        streamed = list(self.gateway.stream(CHAT, fields))
        for choice in whole["choices"]:
            self.assertTrue(is_place(json.loads(choice["message"]["content"])), choice)
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertEqual(text_of(streamed, choice["index"]), choice["message"]["content"])
        self.assertEqual(self.ok(self.gateway, COMPLETION, {"prompt": "12+30=", "structured_outputs": {"choice": ["wholly"]}})
                         ["choices"][0]["text"], "wholly")
        response = self.ok(self.gateway, RESPONSES, {"input": "What is 12 + 30?", "temperature": 1, "text": {"format": {
            "type": "json_schema", "name": "place", "schema": SCHEMA}}})
        self.assertTrue(is_place(json.loads(response["output"][0]["content"][0]["text"])), response)

    def test_a_stream_goes_on_where_it_was_left(self):
        fields = {**ASK, "response_format": FORMAT}
        events = list(self.gateway.events(CHAT, fields, accept="text/event-stream"))
        whole = text_of([event for _, event in events])
        self.assertTrue(is_place(json.loads(whole)))
        for at in range(0, len(events) - 1, 3):
            rest = list(self.of_form["hermes"].stream(CHAT, fields, Last_Event_ID=events[at][0]))
            self.assertEqual(text_of([event for _, event in events[:at + 1]] + rest), whole, f"after event {at}")

    def calls_of(self, choice):
        calls = choice["message"].get("tool_calls", [])
        for call in calls:
            arguments = json.loads(call["function"]["arguments"])
            self.assertTrue(RIGHT[call["function"]["name"]](arguments), call)
        return [call["function"]["name"] for call in calls]

    def test_required_calls_in_every_form(self):
        for form, gateway in self.of_form.items():
            for seed in range(3):
                fields = {**ASK, "seed": seed, "tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
                with self.subTest(form=form, seed=seed):
                    choice = self.ok(gateway, CHAT, fields)["choices"][0]
                    self.assertEqual(len(self.calls_of(choice)), 1, choice)
                    self.assertEqual(choice["finish_reason"], "tool_calls")
                    self.assertIsNone(choice["message"]["content"])
                    streamed = "".join(call["function"].get("arguments", "")
                                       for event in gateway.stream(CHAT, fields) if event != "[DONE]"
                                       for c in event["choices"] for call in c["delta"].get("tool_calls", []))
                    self.assertEqual(streamed, choice["message"]["tool_calls"][0]["function"]["arguments"])

    def test_calls_by_name_and_by_choice_in_every_form(self):
        for form, gateway in self.of_form.items():
            with self.subTest(form=form):
                named = {**ASK, "tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "say"}}}
                choice = self.ok(gateway, CHAT, named)["choices"][0]
                self.assertEqual(self.calls_of(choice), ["say"])
                self.assertEqual(choice["finish_reason"], "stop")
                allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                    {"type": "function", "function": {"name": "go_to"}}]}}
                fields = {**ASK, "tools": TOOLS, "tool_choice": allowed, "parallel_tool_calls": False}
                self.assertEqual(self.calls_of(self.ok(gateway, CHAT, fields)["choices"][0]), ["go_to"])
                # What is free may be anything; what is called is right.
                self.calls_of(self.ok(gateway, CHAT, {**ASK, "tools": TOOLS, "max_tokens": 60})["choices"][0])

    def test_what_was_cut_says_so(self):
        fields = {**ASK, "tools": TOOLS, "tool_choice": "required", "max_tokens": 30}
        choice = self.ok(self.of_form["hermes"], CHAT, fields)["choices"][0]
        self.assertEqual(choice["finish_reason"], "length")

    def test_refusals_name_the_callers_field(self):
        bad = {"type": "object", "properties": {"a": {"not": {}}}}
        for gateway, path, fields, param, words in [
                (self.gateway, CHAT, {**ASK, "response_format": {"type": "json_schema", "json_schema": {"schema": bad}}},
                 "response_format.json_schema.schema", "/properties/a/not"),
                (self.gateway, RESPONSES, {"input": "a", "text": {"format": {"type": "json_schema", "name": "n", "schema": bad}}},
                 "text.format.schema", "/properties/a/not"),
                (self.gateway, COMPLETION, {"prompt": "a", "structured_outputs": {"regex": "a("}}, "structured_outputs.regex", ""),
                (self.gateway, COMPLETION, {"prompt": "a", "structured_outputs": {"grammar": "r ::= q"}},
                 "structured_outputs.grammar", "no rule q"),
                (self.gateway, COMPLETION, {"prompt": "a", "guided_regex": "a"}, "guided_regex", "structured_outputs.regex"),
                (self.gateway, CHAT, {**ASK, "tools": TOOLS, "tool_choice": "required"}, "tools", "--tool-parser"),
                *((self.of_form[form], CHAT, {**ASK, "tool_choice": "required", "tools": [
                    TOOLS[0], {"type": "function", "function": {"name": "f", "strict": True, "parameters": bad}}]},
                   "tools[1].function.parameters", "/properties/a/not") for form in ("hermes", "llama3_json", "chatglm3"))]:
            with self.subTest(param=param):
                answer = gateway.post(path, fields)
                self.assertEqual(answer.status, 400, answer.body)
                error = answer.json()["error"]
                self.assertEqual(error["param"], param, error)
                self.assertIn(words, error["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
