"""openai-python's own tests of its API, unchanged, against the gateway at the URL given.

Each passes, or is refused by name: by a field that is not served, or a path that there is not. Anything else is wrong. A line
for each file: "ok NAME: N passed, N refused (what)" or "FAILED NAME: ...".
"""
import os
import sys

import suite
from sources import kept, sources

URL, KEPT = sys.argv[1], kept()
FILES = ["test_completions.py", "test_models.py", "test_responses.py", "chat/test_completions.py",
         "responses/test_input_tokens.py"]


def main():
    root = sources("openai", "3.54.0", KEPT)
    if root is None:
        print("SKIPPED: the source package of openai could not be had")
        return 0
    good = [suite.report(f"openai {name}", suite.run(root, os.path.join("tests", "api_resources", name), [], ["-o", "asyncio_mode=auto"],
                                         TEST_API_BASE_URL=URL))
            for name in FILES]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
