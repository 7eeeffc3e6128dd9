"""AIPerf, a load of some requests, against the gateway at the URL given: it ends well and counts the tokens that it asked for.
A line for each kind of endpoint: "ok NAME" or "FAILED NAME: why"."""
import glob
import json
import os
import subprocess
import sys
import tempfile

REQUESTS, TOKENS = 16, 12
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "demo")


def profile(kind, url, folder):
    """What AIPerf exports of a run."""
    run = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "aiperf"), "profile", "--model", "demo", "--url", url,
         "--endpoint-type", kind, "--streaming", "--tokenizer", MODEL, "--request-count", str(REQUESTS), "--concurrency",
         "4", "--synthetic-input-tokens-mean", "16", "--synthetic-input-tokens-stddev", "0", "--output-tokens-mean",
         str(TOKENS), "--extra-inputs", "ignore_eos:true", "--extra-inputs", f"max_tokens:{TOKENS}", "--ui", "none",
         "--artifact-dir", folder],
        capture_output=True, text=True, timeout=200, check=False, cwd=folder)
    found = glob.glob(os.path.join(folder, "**", "profile_export_aiperf.json"), recursive=True)
    assert run.returncode == 0 and found, (run.stdout + run.stderr)[-3000:]
    with open(found[0], encoding="utf-8") as file:
        return json.load(file)


def main():
    url = sys.argv[1].rsplit("/v1", 1)[0]
    for kind in ("chat", "completions"):
        try:
            with tempfile.TemporaryDirectory(prefix="tutti-aiperf-") as folder:
                export = profile(kind, url, folder)
            assert export["request_count"]["avg"] == REQUESTS, export["request_count"]
            assert export["time_to_first_token"]["avg"] > 0
            print(f"ok {kind}")
        except Exception as error:  # whatever it is, the other is tried too
            print(f"FAILED {kind}: {error}")


main()
