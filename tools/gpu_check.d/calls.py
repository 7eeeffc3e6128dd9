"""A call of gpu_check: which steps in which order, and the lines that come last."""
import json
import os

import report
import settings
from steps import Check


def failed_before(path):
    """The steps of an earlier call that failed, in their order; those that could not run there are in this one or are not."""
    if path is None:
        return []
    with open(path, encoding="utf-8") as file:
        before = json.load(file)
    return [step for step in settings.STEPS if step in before and not before[step].get("passed") and
            "not_run" not in before[step]]


def order(call, only, skip, again):
    """The steps: what failed before comes first, behind the device."""
    steps = only if only else settings.CALLS[call]
    steps = list(dict.fromkeys(["device", *again, *steps]))
    return [step for step in steps if step not in skip]


def said_last(check, wanted):
    """The summary, which is all there is of a call whose files do not come back."""
    missing = [step for step in wanted if step not in check.results]
    results = dict(check.results, stuck=check.stuck) if check.stuck else check.results
    try:
        text = report.summary(results, missing)
    except Exception as error:  # a figure that is not where it is expected must not hide the verdicts
        text = "\n".join([f"gpu_check: no summary: {type(error).__name__}: {error}",
                          *(f"  {name}: {report.verdict(result)}" for name, result in report.steps_of(results).items())])
    print(text, flush=True)


def is_good(result, rehearse):
    """Of a rehearsal, that nothing failed: some steps have nothing to run there, and say so."""
    return result["passed"] or bool(rehearse) and "not_run" in result


def run(folder, out, call="first", minutes=settings.MINUTES, only=(), skip=(), again=None, rehearse=None):
    """The exit status."""
    wanted = order(call, list(only), skip, failed_before(again))
    check = Check(folder, out, minutes, rehearse)
    try:
        if rehearse == "emulated" and not os.path.exists(os.path.join(check.folder, settings.EMULATED)):
            print("no emulated GPU was packed: tools/gpu_check pack takes it from a build with tests")
            return 1
        if any(step in settings.TORCH_STEPS for step in wanted):
            check.start_warming()
        check.start_models(wanted)
        for step in wanted:
            check.step(step, getattr(check, step))
        if check.warm is not None and "facts" in check.results:
            check.results["facts"]["torch"] = check.torch_facts()
            check.write()
        said_last(check, wanted)
    finally:
        check.clean()
    return 0 if all(is_good(result, rehearse) for result in check.results.values()) and not check.stuck else 1
