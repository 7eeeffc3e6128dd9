#!/usr/bin/env python3
"""The gateway in front of a real cluster with the demo model: every path, streams and whole answers, refusals by name,
clients that go, and hostile bytes."""
import json
import os
import socket
import subprocess
import threading
import unittest

from harness import BINARIES, PATIENCE_S, Cluster, clean_environment, running, wait_until
from http_client import Gateway, text_of
from memory import resident

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
ASK = {"messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 0}
LONG = {"prompt": "Tell me something: ", "ignore_eos": True, "seed": 7}
MIB = 1 << 20


class GatewayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--http", "127.0.0.1:0", workers=2)
        cls.pid = cls.cluster.children()["gateway"]
        cls.gateway = Gateway(cls.cluster.http)
        wait_until(lambda: cls.gateway.get("/health").status == 200, "the gateway is healthy")

    @classmethod
    def tearDownClass(cls):
        assert running(cls.pid), "the gateway died"
        cls.cluster.cleanup()

    def ok(self, path, fields):
        answer = self.gateway.post(path, fields)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def generated(self, *arguments):
        """What `tutti generate` says over gRPC: (ids, text)."""
        done = self.cluster.tutti("generate", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        messages = [json.loads(line) for line in done.stdout.splitlines()]
        return [t["id"] for m in messages for t in m["tokens"]], "".join(m["text"] for m in messages)


class Paths(GatewayTest):
    def test_say_what_is_served(self):
        models = self.gateway.get("/v1/models").json()
        self.assertEqual([m["id"] for m in models["data"]], ["demo"])
        self.assertEqual(models["data"][0]["max_model_len"], 2048)
        self.assertEqual(self.gateway.get("/v1/models/demo").json(), models["data"][0])
        self.assertEqual(self.gateway.get("/v1/models/other").status, 404)
        self.assertEqual(self.gateway.get("/load").json(), {"server_load": 0})
        for path in ("/health", "/live", "/ready", "/ping"):
            self.assertEqual(self.gateway.get(path).status, 200, path)
        self.assertRegex(self.gateway.get("/version").json()["version"], r"^\d")

    def test_without_the_version_are_served_too(self):
        self.assertEqual(self.gateway.get("/models").json(), self.gateway.get("/v1/models").json())
        self.assertEqual(self.ok("/chat/completions", ASK)["choices"][0]["message"]["content"], "42")
        self.assertEqual(self.ok("/completions", {"prompt": "a", "max_tokens": 1})["object"], "text_completion")

    def test_that_are_addresses_are_read_after_an_empty_line(self):
        host = self.gateway.address
        said = self.gateway.raw(f"\r\nGET http://{host}/live HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        self.assertTrue(said.startswith(b"HTTP/1.1 200"), said)

    def test_that_are_not_there_are_refused(self):
        self.assertEqual(self.gateway.get("/v2").status, 404)
        self.assertIn("ends with /v1, once", self.gateway.get("/v1/v1/models").json()["error"]["message"])
        wrong = self.gateway.get(CHAT)
        self.assertEqual((wrong.status, wrong.headers["allow"]), (405, "POST, OPTIONS"))

    def test_names_of_requests_come_back(self):
        answer = self.gateway.get("/live", x_request_id="mine-7")
        self.assertEqual(answer.headers["x-request-id"], "mine-7")
        self.assertRegex(self.gateway.get("/live", x_request_id="a b").headers["x-request-id"], r"^[0-9a-f]{32}$")
        body = self.gateway.post(COMPLETION, {"prompt": "a", "max_tokens": 1}, x_request_id="mine-8").json()
        self.assertEqual(body["id"], "cmpl-mine-8")

    def test_tokenize(self):
        tokens = self.ok("/tokenize", {"prompt": "What is 12 + 30?", "return_token_strs": True})
        self.assertEqual(tokens["count"], len(tokens["tokens"]))
        self.assertEqual("".join(tokens["token_strs"]), "What is 12 + 30?")
        self.assertEqual(self.ok("/detokenize", {"tokens": tokens["tokens"]})["prompt"], "What is 12 + 30?")
        wrong = self.gateway.post("/detokenize", {"tokens": [1, 1 << 20]})
        self.assertEqual((wrong.status, wrong.json()["error"]["param"]), (400, "tokens[1]"))
        chat = self.ok("/tokenize", {"messages": ASK["messages"]})
        self.assertGreater(chat["count"], tokens["count"])
        self.assertEqual(self.gateway.post("/tokenize", {"text": "a"}).json()["error"]["param"], "prompt")


class Answers(GatewayTest):
    def test_of_a_chat_whole_and_streamed_are_the_same(self):
        whole = self.ok(CHAT, {**ASK, "model": "demo"})
        self.assertEqual(whole["choices"][0]["message"]["content"], "42")
        self.assertEqual(whole["choices"][0]["finish_reason"], "stop")
        self.assertEqual(whole["object"], "chat.completion")
        usage = whole["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        events = list(self.gateway.stream(CHAT, {**ASK, "stream_options": {"include_usage": True}}))
        self.assertEqual(text_of(events), "42")
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(events[-2]["choices"], [])
        self.assertEqual(events[-2]["usage"]["completion_tokens"], usage["completion_tokens"])
        self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual([e["choices"][0]["finish_reason"] for e in events[:-2]],
                         [None] * (len(events) - 3) + ["stop"])

    def test_are_those_of_grpc(self):
        ids, text = self.generated("--prompt", LONG["prompt"], "--max-tokens", "60", "--ignore-eos", "--seed", "7")
        whole = self.ok(COMPLETION, {**LONG, "max_tokens": 60, "logprobs": 1, "return_tokens_as_token_ids": True})
        self.assertEqual(whole["choices"][0]["text"], text)
        tokens = whole["choices"][0]["logprobs"]["tokens"]
        self.assertEqual(tokens, [f"token_id:{i}" for i in ids])
        self.assertEqual(whole["usage"]["completion_tokens"], 60)
        self.assertEqual(text_of(self.gateway.stream(COMPLETION, {**LONG, "max_tokens": 60})), text)

    def test_of_several_prompts_and_outputs_are_numbered(self):
        fields = {"prompt": ["12+30=", "7+98="], "n": 2, "temperature": 0, "max_tokens": 8, "stop": "\n"}
        whole = self.ok(COMPLETION, fields)
        self.assertEqual([c["index"] for c in whole["choices"]], [0, 1, 2, 3])
        texts = [c["text"] for c in whole["choices"]]
        self.assertEqual(texts[0], texts[1])
        events = list(self.gateway.stream(COMPLETION, fields))
        self.assertEqual([text_of(events, i) for i in range(4)], texts)
        one = self.ok(COMPLETION, {**fields, "prompt": "12+30=", "n": 1})
        ids = self.ok("/tokenize", {"prompt": "12+30="})["tokens"]
        self.assertEqual(self.ok(COMPLETION, {**fields, "prompt": ids, "n": 1})["choices"], one["choices"])
        echo = self.ok(COMPLETION, {**fields, "prompt": "12+30=", "n": 1, "echo": True})
        self.assertEqual(echo["choices"][0]["text"], "12+30=" + texts[0])

    def test_are_the_same_with_guesses(self):
        # Of so few tokens an answer says again what it has said.
        fields = {**LONG, "max_tokens": 100, "allowed_token_ids": [7, 8, 9], "logprobs": 1}
        off, lookup = ({"speculation": {"mode": mode}} for mode in ("off", "lookup"))
        without, guessed = self.ok(COMPLETION, {**fields, **off}), self.ok(COMPLETION, {**fields, **lookup})
        self.assertEqual(guessed["choices"], without["choices"])
        self.assertNotIn("completion_tokens_details", without["usage"])
        details = guessed["usage"]["completion_tokens_details"]
        self.assertGreater(details["accepted_prediction_tokens"], 0)
        self.assertEqual(guessed["usage"]["completion_tokens"], 100)
        wrong = self.gateway.post(COMPLETION, {**fields, "speculation": {"mode": "lookup", "max_tokens": 16}})
        self.assertEqual((wrong.status, wrong.json()["error"]["param"]), (400, "speculation.max_tokens"))

    def test_have_log_probabilities(self):
        whole = self.ok(CHAT, {**ASK, "logprobs": True, "top_logprobs": 2, "temperature": 1, "seed": 3})
        content = whole["choices"][0]["logprobs"]["content"]
        # But for the token that ends it, which the text does not have.
        self.assertEqual(len(content), whole["usage"]["completion_tokens"] - 1)
        for token in content:
            self.assertEqual(len(token["top_logprobs"]), 2)
            self.assertLessEqual(token["logprob"], 0)
            self.assertEqual(bytes(token["bytes"]).decode(errors="replace"), token["token"])
        said = b"".join(bytes(token["bytes"]) for token in content).decode()
        self.assertTrue(said.startswith(whole["choices"][0]["message"]["content"]), said)
        events = list(self.gateway.stream(CHAT, {**ASK, "logprobs": True, "temperature": 1, "seed": 3}))
        streamed = [t for e in events[:-1] for c in e["choices"] if c["logprobs"] for t in c["logprobs"]["content"]]
        self.assertEqual([t["logprob"] for t in streamed], [t["logprob"] for t in content])

    def test_stream_while_they_are_computed(self):
        stream = self.gateway.stream(COMPLETION, {**LONG, "max_tokens": 1500})
        first = next(stream)
        self.assertIsNone(first["choices"][0]["finish_reason"])
        self.assertGreater(self.cluster.status()["pipelines"][0]["running"], 0)
        stream.close()


class Refusals(GatewayTest):
    def refused(self, path, fields, status=400):
        answer = self.gateway.post(path, fields)
        self.assertEqual(answer.status, status, answer.body)
        return answer.json()["error"]

    def test_name_the_field_as_the_client_wrote_it(self):
        for fields, param in [({"temperature": -1}, "temperature"), ({"max_completion_tokens": 0}, "max_completion_tokens"),
                              ({"max_tokens": 0}, "max_tokens"), ({"tools": [{"type": "function"}]}, "tools[0]"),
                              ({"n": 1000}, "n"), ({"logit_bias": {"99999": 1}}, "logit_bias[99999]"),
                              ({"messages": [{"role": "emperor", "content": "a"}]}, "messages[0].role"),
                              ({"logprobs": True, "top_logprobs": 99}, "top_logprobs"),
                              ({"priority": 1000}, "priority"), ({"response_format": {"type": "xml"}},
                                                                "response_format.type")]:
            with self.subTest(param):
                error = self.refused(CHAT, {**ASK, **fields})
                self.assertEqual(error["param"], param, error)
                self.assertIn(param.split("[")[0], error["message"])
                self.assertEqual(error["type"], "invalid_request_error")
        error = self.refused(COMPLETION, {"prompt": [[1], [99999]]})
        self.assertEqual(error["param"], "prompt[1][0]", error)

    def test_of_models_and_lengths(self):
        self.assertEqual(self.refused(CHAT, {**ASK, "model": "other"}, 404)["code"], "model_not_found")
        error = self.refused(COMPLETION, {"prompt": "word " * 4000})
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertIn("maximum context length is 2048 tokens", error["message"])
        count = self.ok("/tokenize", {"prompt": "word " * 4000})["count"]
        self.assertIn(f"the prompt has {count} tokens", error["message"])
        self.assertEqual(self.refused(CHAT, {**ASK, "max_tokens": 5000})["param"], "max_tokens")

    def test_of_callers_that_would_go_before_others(self):
        error = self.refused(CHAT, {**ASK, "priority": -1}, 403)
        self.assertEqual(error["param"], "priority", error)
        self.ok(CHAT, {**ASK, "priority": 1})

    def test_say_where_a_body_is_no_json(self):
        answer = self.gateway.request("POST", CHAT, b'{"messages": [{"content": "cut \\ud83d"}]}').json()["error"]
        self.assertEqual(answer["param"], "messages[0].content")
        self.assertIn("half a character at line 1", answer["message"])
        self.assertIn("line 2, column 3", self.gateway.request("POST", CHAT, b'{"a":\n [}').json()["error"]["message"])

    def test_of_bodies_that_are_no_json(self):
        for body in (b"", b"{", b"[]", b"{\"a\": \"\xff\"}", b"{\"a\":" * 5000, b"[" * 100000):
            answer = self.gateway.request("POST", CHAT, body)
            self.assertEqual(answer.status, 400, body[:20])
            self.assertIn("error", answer.json())

    def test_of_foreign_names_and_pages(self):
        self.assertEqual(self.gateway.get("/v1/models", host="evil.com").status, 403)
        self.assertEqual(self.gateway.get("/v1/models", origin="https://evil.com").status, 403)
        self.assertEqual(self.gateway.get("/v1/models", host="localhost:1").status, 200)


class Clients(GatewayTest):
    def test_that_go_free_what_they_hold(self):
        stream = self.gateway.stream(COMPLETION, {**LONG, "max_tokens": 2000, "n": 4})
        next(stream)
        stream.close()
        wait_until(lambda: self.cluster.status()["pipelines"][0]["running"] == 0, "the request is cancelled", 20)

    def test_that_go_before_their_whole_answer_do_too(self):
        host, port = self.cluster.http.rsplit(":", 1)
        body = json.dumps({**LONG, "max_tokens": 2000, "n": 4})
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"POST {COMPLETION} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                               f"{body}".encode())
            wait_until(lambda: self.cluster.status()["pipelines"][0]["running"] > 0, "it runs")
        wait_until(lambda: self.cluster.status()["pipelines"][0]["running"] == 0, "the request is cancelled", 20)

    def test_keep_their_connection(self):
        connection = self.gateway.connect()
        for _ in range(3):
            connection.request("POST", COMPLETION, json.dumps({"prompt": "a", "max_tokens": 2, "stream": True}))
            self.assertIn(b"[DONE]", connection.getresponse().read())
            connection.request("GET", "/live")
            self.assertEqual(connection.getresponse().read(), b"{}")
        connection.close()

    def test_of_many_streams_get_what_grpc_gives(self):
        fields = {"prompt": "Tell me something: ", "max_tokens": 40, "ignore_eos": True}
        want = [self.generated("--prompt", fields["prompt"], "--max-tokens", "40", "--ignore-eos", "--seed", str(i))
                for i in range(4)]
        got = [None] * 64

        def ask(i):
            events = list(self.gateway.stream(COMPLETION, {**fields, "seed": i % 4, "return_token_ids": True}))
            ids = [token for e in events[:-1] for c in e["choices"] for token in c.get("token_ids", ())]
            got[i] = ids, text_of(events)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, [want[i % 4] for i in range(64)])


class Hostile(GatewayTest):
    def status(self, data):
        answer = self.gateway.raw(data)
        return int(answer.split()[1]) if answer else None

    def test_bytes_get_a_status_and_a_close(self):
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
        for data, status in [
                (head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
                (head + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
                (head + b"Content-Length: 1000000000\r\n\r\n" + b"a" * 100000, 413),
                (head + b"A: " + b"b" * 100000 + b"\r\n\r\n", 431),
                (b"GET / HTTP/1.1\r\n\r\n", 400),
                (b"\x16\x03\x01" + bytes(300), 400),
                (b"nonsense\r\n\r\n", 400)]:
            with self.subTest(data[:80]):
                self.assertEqual(self.status(data), status)

    def test_crowds_of_idle_connections_hurt_nobody(self):
        host, port = self.cluster.http.rsplit(":", 1)
        before = resident(self.pid)
        crowd = [socket.create_connection((host, int(port))) for _ in range(400)]
        for i, connection in enumerate(crowd):
            if i % 2:
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: local")
        self.assertEqual(self.ok(CHAT, ASK)["choices"][0]["message"]["content"], "42")
        self.assertLess(resident(self.pid) - before, 40 * MIB)
        for connection in crowd:
            connection.close()

    def test_slow_readers_are_bounded_and_end(self):
        host, port = self.cluster.http.rsplit(":", 1)
        body = json.dumps({**LONG, "max_tokens": 1900, "stream": True, "logprobs": 20})
        before, crowd = resident(self.pid), []
        for _ in range(16):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((host, int(port)))
            connection.sendall(f"POST {COMPLETION} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                               f"{body}".encode())
            crowd.append(connection)
        self.assertEqual(self.ok(CHAT, ASK)["choices"][0]["message"]["content"], "42")
        self.assertLess(resident(self.pid) - before, 64 * MIB)
        for connection in crowd:
            connection.close()
        wait_until(lambda: self.cluster.status()["pipelines"][0]["running"] == 0, "all are cancelled", 60)


class Keys(unittest.TestCase):
    def test_options_are_refused_by_name(self):
        for arguments, naming in [(["--listen", "nowhere"], "--listen"), (["--api-keys", "/nonexistent"], "--api-keys"),
                                  (["--tls-cert", "/nonexistent"], "--tls-key"), (["--coordinator", "x"], "no port")]:
            done = subprocess.run([os.path.join(BINARIES, "tutti-gateway"), *arguments], text=True, timeout=PATIENCE_S,
                                  capture_output=True, env=clean_environment())
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(naming, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
