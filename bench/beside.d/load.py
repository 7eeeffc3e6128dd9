"""The client of all servers: prompts of token ids over HTTP, all at once, and when their tokens come."""
import http.client
import json
import threading
import time

import readings
import token_times as timed
import work as works

PATIENCE_S = 600  # for one answer: the slowest row took 60 s on two cores


class Stream(threading.Thread):
    """One answer. .times: when each event with text came, in seconds since it was asked; .error: why it ended."""

    def __init__(self, address, fields, start):
        super().__init__(daemon=True)
        self.address, self.fields, self.start_together = address, fields, start
        self.times, self.error, self.seconds = [], None, 0

    def run(self):
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE_S)
        try:
            connection.connect()
            self.start_together.wait()
            began = time.monotonic()
            connection.request("POST", "/v1/completions", json.dumps(self.fields),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise readings.ReadingError(f"HTTP {response.status}: {response.read()[:400]!r}")
            for line in response:
                brings = readings.event(line)
                if brings == "[DONE]":
                    break
                if brings:
                    self.times.append(time.monotonic() - began)
            self.seconds = time.monotonic() - began
            if not self.times:
                raise readings.ReadingError("the answer had no text")
        except (OSError, http.client.HTTPException, threading.BrokenBarrierError, readings.ReadingError) as error:
            self.error = error
            self.start_together.abort()
        finally:
            connection.close()


def ask(address, prompts, max_tokens, extra):
    """All prompts at once: the figures of `token_times.figures`."""
    start = threading.Barrier(len(prompts))
    streams = [Stream(address, {"model": "", "prompt": ids, "max_tokens": max_tokens, "temperature": 0, "stream": True,
                                "ignore_eos": True, **extra}, start) for ids in prompts]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.join()
    errors = [stream.error for stream in streams if stream.error is not None]
    if errors:
        # A broken barrier is what the others see of the first error.
        real = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
        raise readings.ReadingError(f"the server at {address} failed: {(real or errors)[0]}")
    return timed.figures([stream.times for stream in streams], max(stream.seconds for stream in streams), max_tokens)


def ask_server(address, work, number, vocabulary, extra):
    """One request to warm up, then all prompts of the work at once: the values of its figures."""
    ask(address, works.warm_up_prompts(vocabulary), works.WARM_UP_ANSWER, extra)
    got = ask(address, work.prompts(number, vocabulary), work.answer, extra)
    return [got["ttft"], got["gap"], got["tokens/s"]]
