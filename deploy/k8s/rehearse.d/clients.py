"""Clients of the gateway's Service: each asks one question after the other over a new connection, and compares the stream with the
answer that nothing disturbed."""
import http.client
import json
import random
import ssl
import threading
import time

from certificates import KEY

# Longer than anything that may happen to a stream which ends well.
PATIENCE_S = 120
TOKENS = 64


def make_cases(count):
    draw = random.Random(7)
    return [{"prompt": f"{draw.randrange(1000)} + {draw.randrange(1000)} =", "max_tokens": TOKENS, "temperature": 0.8, "seed": number,
             "ignore_eos": True, "stream": True} for number in range(count)]


class Failed(Exception):
    """What a client saw instead of its answer."""


class Clients:
    def __init__(self, address, authority, count):
        self.address, self.count = address, count
        self.context = ssl.create_default_context(cafile=authority)
        # By the Service's address, where the certificate has its name.
        self.context.check_hostname = False
        self.cases = make_cases(24)
        self.lock, self.over, self.threads = threading.Lock(), False, []
        self.answers, self.failures, self.gap_s, self.first_s = 0, [], 0.0, 0.0
        self.rounds = [0] * count  # of each client: questions that ended
        self.expected = [self.ask(case) for case in self.cases]
        self.take()

    def ask(self, case):
        """The text of the stream."""
        connection = http.client.HTTPSConnection(*self.address, timeout=PATIENCE_S, context=self.context)
        began = last = time.monotonic()
        text, end, gap, first = [], None, 0.0, None
        try:
            connection.request("POST", "/v1/completions", json.dumps(case),
                               {"Content-Type": "application/json", "Authorization": "Bearer " + KEY})
            response = connection.getresponse()
            if response.status != 200:
                raise Failed(f"status {response.status}: {response.read()[:200]!r}")
            for line in response:
                if not line.startswith(b"data: "):
                    continue
                now = time.monotonic()
                first = first or now - began
                gap, last = max(gap, now - last), now
                if line.strip() == b"data: [DONE]":
                    break
                event = json.loads(line[6:])
                if "error" in event:
                    raise Failed(f"error event: {event['error']}")
                choice = event["choices"][0] if event["choices"] else {}
                text.append(choice.get("text", ""))
                end = choice.get("finish_reason") or end
            else:
                raise Failed("the stream broke off")
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if end != "length":
            raise Failed(f"finish_reason {end}")
        with self.lock:
            self.gap_s, self.first_s = max(self.gap_s, gap), max(self.first_s, first)
        return "".join(text)

    def work(self, client):
        number = client
        while not self.over:
            index = number % len(self.cases)
            number += 7
            try:
                text = self.ask(self.cases[index])
                problem = None if text == self.expected[index] else f"question {index}: other text than undisturbed"
            except Failed as failed:
                problem = str(failed)
                time.sleep(0.2)
            with self.lock:
                if problem is None:
                    self.answers += 1
                else:
                    self.failures.append(problem)
                self.rounds[client] += 1

    def start(self):
        self.threads = [threading.Thread(target=self.work, args=(number,), daemon=True) for number in range(self.count)]
        for thread in self.threads:
            thread.start()

    def wait_round(self):
        """Until every client has begun and ended a question; seconds."""
        began, before = time.monotonic(), list(self.rounds)
        while any(now < then + 2 for now, then in zip(self.rounds, before)) and time.monotonic() < began + PATIENCE_S:
            time.sleep(0.05)
        return time.monotonic() - began

    def take(self):
        """(answers, failures, longest silence in a stream, longest wait for a first token) since the last call."""
        with self.lock:
            taken = (self.answers, self.failures, self.gap_s, self.first_s)
            self.answers, self.failures, self.gap_s, self.first_s = 0, [], 0.0, 0.0
        return taken

    def stop(self):
        self.over = True
        for thread in self.threads:
            thread.join()
