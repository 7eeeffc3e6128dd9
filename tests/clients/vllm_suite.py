"""vLLM's tests of its parsers against ours, with the gateway that the fifth argument names; the tests come with its source package.

Of each file: what passed, what is about functions inside of vLLM, and what is wrong, which must be nothing.
"""
import os
import sys

import suite
from sources import kept, sources

GATEWAY, KEPT = sys.argv[5], kept()
FILES = ["tool_parsers/test_hermes_tool_parser.py", "tool_parsers/test_qwen3coder_tool_parser.py",
         "tool_parsers/test_llama3_json_tool_parser.py", "tool_parsers/test_step3p5_tool_parser.py", "parser/engine/test_qwen3.py",
         "parser/engine/test_qwen3_reasoning.py", "reasoning/test_qwen3_reasoning_parser.py", "reasoning/test_deepseekr1_reasoning_parser.py"]
INSIDE = "functions inside of vLLM"
ELSEWHERE = [
    ("structural_tag|adjust_request|regex_timeout|ArgConverter|ValueExtender|IsReasoningEnd|full_input_mixed|Delegating|"
     "WhitespaceStripping|initial_state", INSIDE),
    ("mimo", "MiMo's form"),
    ("tool_call_invalid_json", "a call without its last brace, which is one here"),
    ("llama3_json.*(_simple|surrounding_text)", "text before a call in Llama's form, which is content here, as in vLLM's streams"),
    ("step3p5.*streaming_incremental", "a function's name and its first argument in one message"),
    ("step3p5.*mixed_content", "text between calls, which is kept"),
    ("split_next_parameter_tag", "a parameter that begins within a line, which is text here"),
    ("number_param_whole", "5.0 for a number, which stays as it was written"),
    (r"deepseekr1.*\[(shortest|empty)", "an empty thought, which is none"),
    ("deepseekr1.*new_line", "line ends around a thought, which are left out"),
    ("tool_call_implicit_reasoning_end", "a call that is not whole, which is held back")]


def main():
    root = sources("vllm", "0.33.0", KEPT)
    if root is None:
        print("SKIPPED: the source package of vllm could not be had")
        return 0
    good = True
    for name in sys.argv[6:] or FILES:
        found = suite.run(root, os.path.join("tests", name), ["vllm_plugin", "tests.parser.engine.conftest"], ["--noconftest"],
                          TUTTI_GATEWAY=GATEWAY)
        good = suite.report(f"vLLM parsers {name}", found, ELSEWHERE) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
