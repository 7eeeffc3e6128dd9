"""For pytest: what answers to `requests` refuse is remembered, until the next answer."""
import json

import outcomes
import requests


def watch():
    send = requests.Session.send

    def wrapped(self, request, **settings):
        answer = send(self, request, **settings)
        body = None
        if answer.status_code >= 400:
            try:
                body = json.loads(answer.content)
            except ValueError:
                pass
        outcomes.LAST["refused"] = outcomes.refusal(answer.status_code, body)
        if outcomes.LAST["refused"] == "path":
            outcomes.LAST["refused"] = "path " + request.path_url.split("?")[0]
        # A browser's question before a request: ours has no body, or refuses the page; llama.cpp says 200 and leaves fields out.
        if request.method == "OPTIONS" and answer.status_code in (204, 403):
            answer.status_code = 200
        return answer
    requests.Session.send = wrapped
