"""Users of locust as people write them for OpenAI's API: by requests, and by the faster client, whole and streamed."""
import json

from locust import FastHttpUser, HttpUser, constant, task

ASK = {"model": "demo", "messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 0}


def text_of(lines):
    """The text of a stream, which has to end as it should."""
    text, last = "", ""
    for line in lines:
        line = line.decode() if isinstance(line, bytes) else line
        if not line.startswith("data: "):
            continue
        last = line[6:].strip()
        if last != "[DONE]":
            text += "".join(choice["delta"].get("content") or "" for choice in json.loads(last)["choices"])
    return text if last == "[DONE]" else f"cut off after {text!r}"


class Person(HttpUser):
    wait_time = constant(0)

    @task(3)
    def whole(self):
        with self.client.post("/v1/chat/completions", json=ASK, name="whole", catch_response=True) as answer:
            if answer.status_code != 200 or answer.json()["choices"][0]["message"]["content"] != "42":
                answer.failure(answer.text)

    @task(3)
    def streamed(self):
        with self.client.post("/v1/chat/completions", json={**ASK, "stream": True}, stream=True, name="streamed",
                              catch_response=True) as answer:
            said = text_of(answer.iter_lines())
            if said != "42":
                answer.failure(said)

    @task
    def wrong(self):
        with self.client.post("/v1/chat/completions", json={**ASK, "temperature": 1001}, name="wrong",
                              catch_response=True) as answer:
            if answer.status_code == 400 and answer.json()["error"]["param"] == "temperature":
                answer.success()
            else:
                answer.failure(f"{answer.status_code}: {answer.text}")


class FastPerson(FastHttpUser):
    wait_time = constant(0)

    @task
    def fast(self):
        with self.client.post("/v1/chat/completions", json={**ASK, "stream": True}, stream=True, name="fast",
                              catch_response=True) as answer:
            said = text_of(answer.streamed_read_lines()) if hasattr(answer, "streamed_read_lines") else text_of(
                answer.text.splitlines())
            if said != "42":
                answer.failure(said)

    @task
    def models(self):
        self.client.get("/v1/models", name="models")
