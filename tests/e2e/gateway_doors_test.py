#!/usr/bin/env python3
"""The gateway's other doors in front of a real cluster: Anthropic's messages, vLLM's ids, prompts with their own
log-probabilities, several names of the model, and keys before a coordinator that takes nobody for a gateway."""
import hashlib
import json
import os
import subprocess
import unittest
import urllib.parse

from harness import BINARIES, Cluster, clean_environment, running, wait_until
from http_client import Gateway, text_of

NAMES = ["Qwen/Qwen3-0.6B", "qwen3:0.6b", "demo"]
MESSAGES, IDS, COMPLETION, CHAT = "/v1/messages", "/inference/v1/generate", "/v1/completions", "/v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 0}
TEXT = {"prompt": "Tell me something: ", "temperature": 0, "max_tokens": 24, "ignore_eos": True, "skip_special_tokens": False}


class Doors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--http", "127.0.0.1:0", "--served-model-name", ",".join(NAMES), workers=2)
        cls.pid = cls.cluster.children()["gateway"]
        cls.gateway = Gateway(cls.cluster.http)
        wait_until(lambda: cls.gateway.get("/health").status == 200, "the gateway is healthy")

    @classmethod
    def tearDownClass(cls):
        assert running(cls.pid), "the gateway died"
        cls.cluster.cleanup()

    def ok(self, path, fields, **headers):
        answer = self.gateway.post(path, fields, **headers)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def test_models_have_the_names_of_hubs(self):
        models = self.gateway.get("/v1/models").json()["data"]
        self.assertEqual([model["id"] for model in models], NAMES)
        for name in NAMES:
            for path in (name, urllib.parse.quote(name, safe="")):
                self.assertEqual(self.gateway.get(f"/v1/models/{path}").json()["id"], name)
            self.assertEqual(self.ok(CHAT, {**ASK, "model": name})["model"], name)
        self.assertEqual(self.ok(CHAT, ASK)["model"], NAMES[0])
        error = self.gateway.post(CHAT, {**ASK, "model": "other"}).json()["error"]
        self.assertEqual((error["param"], error["code"]), ("model", "model_not_found"))
        self.assertIn(NAMES[1], error["message"])

    def test_messages_whole_and_streamed(self):
        fields = {**ASK, "max_tokens": 16}
        whole = self.ok(MESSAGES, fields, anthropic_version="2023-06-01", x_api_key="none")
        self.assertEqual(whole["content"], [{"type": "text", "text": "42"}])
        self.assertEqual((whole["type"], whole["role"], whole["stop_reason"]), ("message", "assistant", "end_turn"))
        events = list(self.gateway.stream(MESSAGES, fields))
        self.assertEqual(events[0]["type"], "message_start")
        self.assertEqual("".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta"), "42")
        self.assertEqual(events[-2]["usage"]["output_tokens"], whole["usage"]["output_tokens"])
        self.assertEqual(events[-1]["type"], "message_stop")
        count = self.ok(MESSAGES + "/count_tokens", {"messages": ASK["messages"]})["input_tokens"]
        self.assertEqual(count, events[0]["message"]["usage"]["input_tokens"])
        begun = {**fields, "messages": [*ASK["messages"], {"role": "assistant", "content": "4"}]}
        self.assertEqual(self.ok(MESSAGES, begun)["content"][0]["text"], "2")

    def test_errors_of_messages_are_in_its_form(self):
        for fields, status, kind, words in [
                ({**ASK}, 400, "invalid_request_error", "max_tokens"),
                ({**ASK, "max_tokens": 9999}, 400, "invalid_request_error", "max_tokens"),
                ({**ASK, "max_tokens": 1, "model": "x"}, 404, "not_found_error", "model"),
                ({"max_tokens": 1, "messages": [{"role": "user", "content": "word " * 4000}]}, 400, "invalid_request_error",
                 "maximum context length")]:
            answer = self.gateway.post(MESSAGES, fields)
            body = answer.json()
            self.assertEqual((answer.status, body["type"], body["error"]["type"]), (status, "error", kind), body)
            self.assertIn(words, body["error"]["message"])

    def test_ids_in_and_out(self):
        prompt = self.ok("/tokenize", {"prompt": TEXT["prompt"]})["tokens"]
        text = self.ok(COMPLETION, {**TEXT, "return_token_ids": True})["choices"][0]
        params = {"temperature": 0, "max_tokens": 24, "ignore_eos": True, "logprobs": 1, "skip_special_tokens": False}
        ids = self.ok(IDS, {"token_ids": prompt, "sampling_params": params, "return_token_ids": True})
        self.assertEqual(ids["choices"][0]["token_ids"], text["token_ids"])
        self.assertEqual(ids["prompt_token_ids"], prompt)
        self.assertEqual([t["token_id"] for t in ids["choices"][0]["logprobs"]["content"]], text["token_ids"])
        self.assertEqual(self.ok(IDS, {"token_ids": prompt, "sampling_params": params, "output_mode": "text"})
                         ["choices"][0]["text"], text["text"])
        events = list(self.gateway.stream(IDS, {"token_ids": prompt, "sampling_params": params}))
        self.assertEqual([i for e in events[:-1] for c in e["choices"] for i in c["token_ids"]], text["token_ids"])
        for fields, param in [({"token_ids": [1 << 20], "sampling_params": {}}, "token_ids[0]"),
                              ({"token_ids": [1], "sampling_params": {"temperature": -1}}, "sampling_params.temperature")]:
            error = self.gateway.post(IDS, fields).json()["error"]
            self.assertEqual(error["param"], param, error)

    def test_prompts_have_the_log_probabilities_that_decoding_gave(self):
        prompt = self.ok("/tokenize", {"prompt": TEXT["prompt"]})["tokens"]
        said = self.ok(COMPLETION, {**TEXT, "return_token_ids": True, "logprobs": 2})["choices"][0]
        scored = self.ok(COMPLETION, {"prompt": prompt + said["token_ids"], "max_tokens": 0, "echo": True, "logprobs": 2})
        choice = scored["choices"][0]
        self.assertEqual(choice["text"], TEXT["prompt"] + said["text"])
        logprobs = choice["logprobs"]
        self.assertIsNone(logprobs["token_logprobs"][0])
        self.assertEqual(logprobs["token_logprobs"][len(prompt):], said["logprobs"]["token_logprobs"])
        self.assertEqual(logprobs["top_logprobs"][len(prompt):], said["logprobs"]["top_logprobs"])
        self.assertEqual("".join(logprobs["tokens"]), choice["text"])
        self.assertEqual(scored["usage"]["completion_tokens"], 0)
        # With an output, as a stream, of several prompts, and in vLLM's own field.
        both = self.ok(COMPLETION, {**TEXT, "max_tokens": 2, "echo": True, "logprobs": 2})["choices"][0]
        self.assertEqual(len(both["logprobs"]["tokens"]), len(prompt) + 2)
        self.assertEqual(both["logprobs"]["token_logprobs"][-2:], said["logprobs"]["token_logprobs"][:2])
        events = list(self.gateway.stream(COMPLETION, {**TEXT, "max_tokens": 2, "echo": True, "logprobs": 2}))
        self.assertEqual(text_of(events), both["text"])
        self.assertEqual([x for e in events[:-1] for c in e["choices"] if c["logprobs"] for x in c["logprobs"]["token_logprobs"]],
                         both["logprobs"]["token_logprobs"])
        several = self.ok(COMPLETION, {"prompt": ["12+30=", TEXT["prompt"]], "max_tokens": 1, "echo": True, "logprobs": 1,
                                       "temperature": 0})["choices"]
        self.assertEqual(several[1]["logprobs"]["token_logprobs"][1:len(prompt)],
                         both["logprobs"]["token_logprobs"][1:len(prompt)])
        told = self.ok(COMPLETION, {**TEXT, "prompt_logprobs": 1, "max_tokens": 1})["choices"][0]["prompt_logprobs"]
        self.assertIsNone(told[0])
        self.assertEqual([one[str(i)]["logprob"] for one, i in zip(told[1:], prompt[1:])],
                         both["logprobs"]["token_logprobs"][1:len(prompt)])
        chat = self.ok(CHAT, {**ASK, "prompt_logprobs": 0, "max_tokens": 1})
        self.assertEqual(len(chat["prompt_logprobs"]), chat["usage"]["prompt_tokens"])

    def test_keys_before_a_coordinator_that_takes_it_for_a_client(self):
        folder = self.cluster.dir.name
        keys, ready, log = (os.path.join(folder, name) for name in ("keys", "keyed.json", "keyed.log"))
        with open(keys, "w", encoding="utf-8") as file:
            for tenant in ("one", "two"):
                file.write(f"{tenant} {hashlib.sha256(('key of ' + tenant).encode()).hexdigest()}\n")
        with open(log, "w", encoding="utf-8") as file:
            process = subprocess.Popen([os.path.join(BINARIES, "tutti-gateway"), "--coordinator", self.cluster.address,
                                        "--listen", "127.0.0.1:0", "--api-keys", keys, "--ready-file", ready],
                                       stdout=file, stderr=file, env=clean_environment())
        try:
            wait_until(lambda: os.path.exists(ready), "the gateway listens")
            with open(ready, encoding="utf-8") as file:
                address = json.load(file)["address"]
            for headers in ({"authorization": "Bearer key of one"}, {"x_api_key": "key of two"}):
                gateway = Gateway(address, **headers)
                wait_until(lambda: gateway.get("/health").status == 200, "it is healthy")
                answer = gateway.post(CHAT, ASK)
                self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(Gateway(address, x_api_key="none").post(CHAT, ASK).status, 401)
            refused = Gateway(address).post(MESSAGES, {**ASK, "max_tokens": 1})
            self.assertEqual((refused.status, refused.json()["error"]["type"]), (401, "authentication_error"))
            # The operator hears of it.
            with open(log, encoding="utf-8") as file:
                self.assertIn("takes this gateway for a client", file.read())
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    unittest.main()
