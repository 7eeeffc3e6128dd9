"""The client of both servers: prompts of token ids over HTTP, all at once, and when their tokens come."""
import http.client
import json
import random
import statistics
import threading
import time

import readings

PATIENCE_S = 600  # for one answer: the slowest row took 60 s on two cores


def prompt_of(seed, tokens, vocabulary):
    """Distinct prompts for distinct seeds; ids that no tokenizer uses for control are at the low end of ours."""
    draw = random.Random(seed)
    return [draw.randrange(1000, vocabulary) for _ in range(tokens)]


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
    """All prompts at once: {"ttft": median s, "gap": longest s, "itl": median s, "tokens/s": of all together, and
    "together": while all generate; 0 where some end before others begin}."""
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
    return figures([stream.times for stream in streams], max(stream.seconds for stream in streams), max_tokens)


def together(times, max_tokens):
    """Tokens/s from the last stream's first event to the first stream's last; 0 where there is no such time."""
    begin, end = max(one[0] for one in times), min(one[-1] for one in times)
    if end <= begin:
        return 0.0
    # An event may bring several tokens, or none where a letter is not whole yet.
    tokens = sum(sum(begin < time <= end for time in one) * max_tokens / len(one) for one in times)
    return tokens / (end - begin)


def figures(times, seconds, max_tokens):
    """Of the times at which each stream's events came."""
    gaps = [later - earlier for one in times for earlier, later in zip(one, one[1:])]
    return {"ttft": statistics.median(one[0] for one in times),
            "gap": max(gaps, default=0.0),
            "itl": statistics.median(gaps) if gaps else 0.0,
            "tokens/s": len(times) * max_tokens / seconds,
            "together": together(times, max_tokens),
            "events": statistics.median(len(one) for one in times)}
