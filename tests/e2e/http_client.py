"""HTTP to a gateway with nothing but the standard library, and the events of its streams."""
import http.client
import json
import socket

from harness import PATIENCE_S


class Answer:
    """A whole answer: .status, .headers, .body as bytes; json() of it."""

    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.body)


class Gateway:
    """The gateway at `address` (host:port)."""

    def __init__(self, address, **headers):
        self.address = address
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=PATIENCE_S)

    def request(self, method, path, body=None, **headers):
        connection = self.connect()
        try:
            connection.request(method, path, body,
                               {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, **headers)

    def post(self, path, fields, **headers):
        return self.request("POST", path, json.dumps(fields), content_type="application/json", **headers)

    def stream(self, path, fields, **headers):
        """The events of a stream, as they come; "[DONE]" is the last."""
        for _, event in self.events(path, fields, **headers):
            yield event

    def events(self, path, fields, **headers):
        """(id, event) of a stream, as they come; the id is that of the last event that had one."""
        connection = self.connect()
        try:
            connection.request("POST", path, json.dumps({**fields, "stream": True}),
                               {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            last = ""
            for line in response:
                text = line.decode().rstrip("\n")
                if text.startswith("id: "):
                    last = text[4:]
                if text.startswith("data: "):
                    yield last, text[6:] if text == "data: [DONE]" else json.loads(text[6:])
        finally:
            connection.close()

    def raw(self, data, patience=PATIENCE_S):
        """What comes back for these bytes until the gateway closes or has answered."""
        host, port = self.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=patience) as connection:
            try:
                connection.sendall(data)
            except OSError:
                pass  # it closed before it had read all of it
            received = b""
            while True:
                try:
                    piece = connection.recv(65536)
                except ConnectionResetError:
                    return received
                if not piece:
                    return received
                received += piece


def text_of(events, index=0):
    """The text of a choice, over all chunks of a stream."""
    text = ""
    for event in events:
        if event == "[DONE]":
            continue
        for choice in event["choices"]:
            if choice["index"] == index:
                text += choice["text"] if "text" in choice else choice["delta"].get("content", "")
    return text
