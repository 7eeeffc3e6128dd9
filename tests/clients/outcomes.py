"""For pytest: of each test its outcome, a line of JSON a test in the file that OUTCOMES names.

"passed", "skipped" (by the test itself), "refused": the last answer before the failure was a refusal by name, of a field or a path
that is not served; "wrong": anything else that failed.
"""
import json
import os
import re

import pytest

# What the last answer of the service refused, told by whoever sees answers; None: it refused nothing.
LAST = {"refused": None}


def refusal(status, body):
    """The field or the path that an answer refuses; None: it refuses none."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        error = body if isinstance(body, dict) else {}
    if status == 405 or error.get("code") == "unknown_url":
        return "path"
    if status == 404 and error.get("param") == "model":
        return "model"
    if status != 400:
        return None
    # Anthropic's errors have words alone, which begin with the field.
    return error.get("param") or (str(error.get("message", "")).split(" ")[0] if error.get("type") == "invalid_request_error" else None)


def of_response(response):
    try:
        return refusal(response.status_code, response.json())
    except (AttributeError, ValueError):
        return None


def of_exceptions(error):
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        named = refusal(getattr(error, "status_code", None), getattr(error, "body", None)) or of_response(getattr(error, "response", None))
        if named == "path" and getattr(error, "request", None) is not None:
            # Ids are no part of its name.
            parts = [part for part in str(error.request.url).partition("/v1/")[2].split("/")
                     if re.fullmatch(r"(?!.*_id$)[a-z_]+", part)]
            named = "path /" + "/".join(parts)
        if named:
            return named
        error = error.__cause__ or error.__context__
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    LAST["refused"] = None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when != "call" and not report.failed and not (report.when == "setup" and report.skipped):
        return
    error = call.excinfo.value if call.excinfo else None
    named = (LAST["refused"] or of_exceptions(error)) if report.failed else None
    expected = hasattr(report, "wasxfail")
    outcome = ("passed" if report.passed or expected else "skipped" if report.skipped else "refused" if named else "wrong")
    said = named or (f"{type(error).__name__} {error}"[:400] if report.failed else "")
    with open(os.environ["OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps([item.nodeid, outcome, said]) + "\n")
