"""llama.cpp's server tests against gateways of ours in front of the coordinator at the address given (the fourth argument).

Of each file: what passed, what was refused by name (a field or a path of theirs alone), and what is wrong, which must be nothing.
The tests come with the source package of llama-cpp-python. What they say of their own model and build cannot be asked of another:
assertions that match TAKEN_OUT are left out of a copy, and texts match every pattern of theirs (llama_plugin.py).
"""
import os
import re
import shutil
import sys
import tempfile

import suite
from sources import kept, sources

CORE, GATEWAY, KEPT = sys.argv[4], sys.argv[5], kept()
FILES = ["test_basic.py", "test_chat_completion.py", "test_completion.py", "test_compat_anthropic.py", "test_compat_oai_responses.py",
         "test_ignore_eos.py", "test_security.py", "test_tokenize.py", "test_tool_call.py"]
# What can be said of their model and program alone, and forms in which ours are OpenAI's and vLLM's: the first delta's content is "",
# no null; a key that is wrong is an invalid_request_error; /completions is not their own /completion.
TAKEN_OUT = re.compile(r"^( *)assert (?=.*(?:" + "|".join([
    "system_fingerprint", r"== n_prompt\b", r"== n_predicted\b", r"\bn_cache\b", '"llama-test-model"', "finish_reason.*== (?:finish_reason|\"length\")",
    r"delta.*content.* is None", "Expected non empty content delta", '"authentication_error"', '"content" in res.body$']) + "))", re.M)
ELSEWHERE = [
    ("test_server_multiple_addresses|test_server_models|aliases_and_tags|test_no_ui", "options of their program"),
    ("test_chat_template|__verbose", "the prompt in the answer, for their debugging"),
    (r"test_invalid_chat_completion_req\[messages7\]", "two answers in a row, which a template may take"),
    ("test_anthropic_empty_messages", "no messages, which Anthropic refuses"),
    ("with_multimodal_model|test_local_media_file|Vision", "a model from a hub"),
    ("thinking_history_in_count_tokens", "a template that shows thoughts"),
    ("static_assets", "files of their page"),
    ("test_context_size_exceeded", "fields of their errors"),
    ("Credentials|Allow-Methods|Allow-Headers", "the words to a browser that asks first, where ours allow no more than is asked for"),
    ("with_tools_enabled", "options of their program")]


def take_out(path):
    """How many of a file's assertions are left out."""
    with open(path, encoding="utf-8") as file:
        text, taken = TAKEN_OUT.subn(r"\1assert True or ", file.read())
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return taken


def main():
    package = sources("llama-cpp-python", "0.3.36", KEPT)
    if package is None:
        print("SKIPPED: the source package of llama-cpp-python could not be had")
        return 0
    good = True
    with tempfile.TemporaryDirectory(prefix="tutti-llama-tests-") as folder:
        root = os.path.join(folder, "tests")
        shutil.copytree(os.path.join(package, "vendor", "llama.cpp", "tools", "server", "tests"), root)
        taken = {name: take_out(os.path.join(root, name)) for name in ["utils.py", *(f"unit/{name}" for name in FILES)]}
        for name in FILES:
            found = suite.run(root, os.path.join("unit", name), ["llama_plugin"], ["-m", "not slow"], TUTTI_CORE=CORE, TUTTI_GATEWAY=GATEWAY)
            told = f"llama.cpp {name} ({taken['unit/' + name]} assertions about their own left out)"
            good = suite.report(told, found, ELSEWHERE) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
