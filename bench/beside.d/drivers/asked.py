"""The driver's end of the conversation: JSON objects, one a line.

First it says {"settings": {...}}. Then it reads {"prompts": [[id, ...], ...], "tokens": N}, all asked at once, each to be
answered with N tokens, and says {"times": [[s, ...], ...]}: when each token of each answer came, in seconds since the question.
{"error": "..."} in the place of either. The end of its input ends it.
"""
import json
import os
import sys
import traceback


def serve(start):
    """start() -> (settings, answer); answer(prompts, tokens) -> times."""
    # Libraries print to stdout as they like; what they say goes to the log.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message):
        out.write(json.dumps(message) + "\n")
        out.flush()

    try:
        settings, answer = start()
    except Exception as error:  # any reason of a library's own, told to who asked
        traceback.print_exc()
        say({"error": f"{type(error).__name__}: {error}"})
        return 1
    say({"settings": settings})
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            say({"times": answer(asked["prompts"], asked["tokens"])})
        except Exception as error:
            traceback.print_exc()
            say({"error": f"{type(error).__name__}: {error}"})
    return 0
