"""Clients as people have them: the Python package and the command `tutti generate`, whose library is C++. They go on with a
broken answer by themselves; nothing here helps them."""
import itertools
import os
import subprocess
import sys
import time

from google.protobuf import json_format

import clients
import cluster
import stubs

sys.path.insert(0, os.path.join(stubs.SOURCE, "client", "python"))
import tutti

# Of a command that found nobody: a person starts it again.
NOT_REACHABLE = 3
AGAIN_S = 0.1
# Flags of a field with another name.
FLAGS = {"allowed_token_ids": "allowed_token"}


class Cancelled:
    """What the harness ends a stream by, whatever kind of call it is."""

    def __init__(self, cancel):
        self.cancel = cancel


class Package:
    """The Python package, as a program uses it."""

    def __init__(self, messages, address):
        self.messages = messages
        self.client = tutti.Client(address, retry=tutti.RetryPolicy(tries=10**6, total_s=60))

    def close(self):
        self.client.close()

    @staticmethod
    def arguments(request):
        """What generate() is called with for a request of workload.py."""
        asked = {field.name: list(value) if field.label == field.LABEL_REPEATED else value
                 for field, value in request.sampling.ListFields()}
        if request.HasField("speculation"):
            asked["speculation"] = "off"
        return dict(asked, token_ids=list(request.token_ids.ids), n=max(1, request.n))

    def message(self, chunk):
        """The chunk as the service would have sent it."""
        message = self.messages.GenerateResponse(index=chunk.index, output=chunk.output, text=chunk.text)
        for token in chunk.tokens:
            added = message.tokens.add(id=token.id, logprob=token.logprob or 0)
            for top in token.top:
                added.top.add(id=top.id, token=top.token, logprob=top.logprob)
        if chunk.finish:
            finish, usage = chunk.finish, chunk.finish.usage
            message.finish.reason = {"stop": self.messages.FINISH_REASON_STOP,
                                     "length": self.messages.FINISH_REASON_LENGTH}[finish.reason.value]
            message.finish.stop, message.finish.seed = finish.stop, finish.seed
            message.finish.usage.prompt_tokens = usage.prompt_tokens
            message.finish.usage.completion_tokens = usage.completion_tokens
        return message

    def run(self, stream, patience_s):
        answer = self.client.generate(**self.arguments(stream.case.request))
        stream.call = Cancelled(answer.close)
        try:
            for chunk in answer:
                stream.arrivals.append(time.monotonic())
                stream.past_first = stream.past_first or bool(chunk.tokens)
                stream.answer.add(self.message(chunk))
        except tutti.TuttiError as error:
            stream.answer.error = str(error)
        stream.resumed = answer.resumed


class Command:
    """`tutti generate --json`, a process for each answer."""

    def __init__(self, messages, address, binaries):
        self.messages, self.address = messages, address
        self.program = os.path.join(binaries, "tutti")

    def close(self):
        """No process outlives its answer."""

    def arguments(self, request):
        sampling = request.sampling
        flags = ["--json", "--address", self.address, "--outputs", str(max(1, request.n)),
                 "--token-ids", ",".join(map(str, request.token_ids.ids))]
        for field, value in sampling.ListFields():
            name = "--" + FLAGS.get(field.name, field.name).replace("_", "-")
            if field.type == field.TYPE_BOOL:
                flags.append(name)
            elif field.label == field.LABEL_REPEATED:
                flags += [part for one in value for part in (name, str(one))]
            else:
                flags += [name, repr(value)]
        if request.HasField("speculation"):
            flags += ["--speculation", "off"]
        return [self.program, "generate", *flags]

    def run(self, stream, patience_s):
        while self.attempt(stream) == NOT_REACHABLE and not stream.arrivals and not stream.dropped:
            if time.monotonic() > stream.began + patience_s:
                return
            time.sleep(AGAIN_S)
            stream.answer.error = ""

    def attempt(self, stream):
        """The exit status of one process."""
        process = subprocess.Popen(self.arguments(stream.case.request), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=cluster.harness.clean_environment())
        stream.call = Cancelled(process.kill)
        with process:
            for line in process.stdout:
                message = json_format.Parse(line, self.messages.GenerateResponse())
                stream.arrivals.append(time.monotonic())
                stream.past_first = stream.past_first or bool(message.tokens)
                stream.answer.add(message)
            said = process.stderr.read().decode(errors="replace").strip()
        if process.returncode != 0:
            stream.answer.error = f"tutti ended with status {process.returncode}: {said}"
        return process.returncode


class OwnClients:
    """One of the two kinds, in turn."""

    needs = "resume"
    made = itertools.count()

    def __new__(cls, messages, address, binaries):
        kind = next(cls.made) % 2
        return Package(messages, address) if kind else Command(messages, address, binaries)

    possible = clients.Resuming.possible
