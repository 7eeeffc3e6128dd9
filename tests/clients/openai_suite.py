"""openai-python's own tests of its API, unchanged, against the gateway at the URL given.

Each passes, or is refused by name: by a field that is not served, or a path that there is not. Anything else is wrong. A line
for each file: "ok NAME: N passed, N refused (what)" or "FAILED NAME: ...". The sources come with pip's source package and are
kept nowhere.
"""
import collections
import glob
import json
import os
import subprocess
import sys
import tarfile
import tempfile

URL = sys.argv[1]
PACKAGE = "openai==3.54.0"
FILES = ["test_completions.py", "test_models.py", "test_responses.py", "chat/test_completions.py",
         "responses/test_input_tokens.py"]
# Told to pytest: of each test its outcome, and of a refusal what it names.
PLUGIN = '''
import json, os
import pytest

def refusal(error):
    """The field or the path that an answer of the service names; nothing: it is none."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        status = getattr(error, "status_code", None)
        if status in (400, 404, 405):
            body = getattr(error, "body", None) or {}
            if body.get("param") or body.get("code") == "unknown_url" or status == 405:
                return body.get("param") or "path"
        error = error.__cause__ or error.__context__
    return None

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when != "call" and not report.failed:
        return
    named = refusal(call.excinfo.value) if call.excinfo else None
    outcome = "passed" if report.passed else "skipped" if report.skipped else "refused" if named else "wrong"
    said = named or (str(call.excinfo.value)[:200] if report.failed else "")
    with open(os.environ["OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps([item.nodeid, outcome, said]) + "\\n")
'''


def main():
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tutti-openai-tests-") as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--no-binary", ":all:", "--dest", folder, PACKAGE], check=True, timeout=200)
        with tarfile.open(glob.glob(os.path.join(folder, "*.tar.gz"))[0]) as source:
            source.extractall(folder, filter="data")
        root = glob.glob(os.path.join(folder, "openai-*", ""))[0]
        with open(os.path.join(root, "outcomes_plugin.py"), "w", encoding="utf-8") as file:
            file.write(PLUGIN)
        for name in FILES:
            outcomes = os.path.join(folder, "outcomes-" + name.replace("/", "-"))
            environment = {**os.environ, "TEST_API_BASE_URL": URL, "OUTCOMES": outcomes, "PYTHONPATH": root}
            subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "outcomes_plugin", "-p", "no:cacheprovider", "-c",
                            os.devnull, "--rootdir", root, "-o", "asyncio_mode=auto", os.path.join("tests", "api_resources", name)],
                           cwd=root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                           timeout=600)
            counts, named, wrong = collections.Counter(), collections.Counter(), []
            if os.path.exists(outcomes):
                with open(outcomes, encoding="utf-8") as file:
                    for line in file:
                        test, outcome, said = json.loads(line)
                        counts[outcome] += 1
                        if outcome == "refused":
                            named[said.split(".")[0].split("[")[0]] += 1
                        if outcome == "wrong":
                            wrong.append(f"{test.split('::')[-1]}: {said}".replace("\n", " "))
            told = f"{name}: {counts['passed']} passed, {counts['refused']} refused" + (
                f" ({', '.join(f'{what} {count}' for what, count in sorted(named.items()))})" if named else "")
            if wrong or counts["passed"] == 0:
                failed += 1
                print(f"FAILED {told}, {len(wrong)} wrong: {wrong[:3]}", flush=True)
            else:
                print(f"ok {told}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
