"""What a gateway makes of a text that a model wrote: content, reasoning and calls, whole and streamed."""
import atexit
import http.client
import json
import os
import re
import subprocess
import tempfile
import time

import echo_coordinator

GATEWAY = os.environ["TUTTI_GATEWAY"]
STARTED_S = 30
_STARTED = {}
_ECHO = []


class Said:
    def __init__(self):
        self.content, self.reasoning, self.calls = "", "", []

    def take(self, delta):
        self.content += delta.get("content") or ""
        self.reasoning += delta.get("reasoning") or delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or []:
            at = call.get("index", len(self.calls))
            if at == len(self.calls):
                self.calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
            self.calls[at]["arguments"] += call["function"].get("arguments") or ""

    def told(self):
        return self.content, self.reasoning, [(call["name"], call["arguments"]) for call in self.calls]


def gateway(tools, reasoning):
    """The port of a gateway that looks for these forms, in front of the echo."""
    if (tools, reasoning) not in _STARTED:
        if not _ECHO:
            _ECHO.extend(echo_coordinator.serve())
        aside = tempfile.TemporaryDirectory(prefix="tutti-echo-")
        ready = os.path.join(aside.name, "ready.json")
        process = subprocess.Popen([GATEWAY, "--coordinator", _ECHO[1], "--listen", "127.0.0.1:0", "--tool-parser", tools,
                                    "--reasoning-parser", reasoning, "--ready-file", ready],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(process.kill)
        deadline = time.monotonic() + STARTED_S
        while not os.path.exists(ready):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the gateway does not begin")
            time.sleep(0.01)
        with open(ready, encoding="utf-8") as file:
            port = int(json.load(file)["address"].rsplit(":", 1)[1])
        _STARTED[tools, reasoning] = port, aside
        while request(port, "GET", "/v1/models").status != 200 and time.monotonic() < deadline:
            time.sleep(0.01)
    return _STARTED[tools, reasoning][0]


def request(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.text = answer.read().decode()
    connection.close()
    return answer


def declared(text):
    """Functions by the names that a text calls, of which nothing is known."""
    names = re.findall(r'"name"\s*:\s*"([^"\\]+)"|<function=([^>\n<]+)>', text)
    return [{"type": "function", "function": {"name": name}}
            for name in dict.fromkeys(a or b for a, b in names) if re.fullmatch(r"[\w.:-]{1,64}", name)]


def ask(text, form, functions, stream, open_end=False, cut=1, in_reasoning=False):
    """`form`: names of the parsers of calls and of reasoning."""
    told = {"say": text, "cut": cut, "open": open_end, "in_reasoning": in_reasoning}
    body = {"messages": [{"role": "user", "content": json.dumps(told)}], "stream": stream}
    if functions:
        body["tools"] = functions
    answer = request(gateway(*form), "POST", "/v1/chat/completions", body)
    assert answer.status == 200, answer.text
    said = Said()
    if not stream:
        message = json.loads(answer.text)["choices"][0]["message"]
        said.take({**message, "tool_calls": [{**call, "index": at} for at, call in enumerate(message.get("tool_calls") or [])]})
        return said
    for line in answer.text.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:]).get("choices", []):
                said.take(choice["delta"])
    return said
