"""vLLM's tests of what it serves, against the gateway at the third address; the tests come with its source package.

Of each file: what passed, what was refused by name, what is about its own classes, models or options, and what is wrong, which must
be nothing.
"""
import os
import sys

import suite
from sources import kept, sources

URL, KEPT = sys.argv[3], kept()
FILES = ["openai/completion/test_completion.py", "openai/completion/test_completion_text_offset.py", "openai/completion/test_prompt_validation.py",
         "openai/completion/test_token_in_token_out.py", "openai/chat_completion/test_chat.py", "openai/chat_completion/test_chat_completion.py",
         "openai/chat_completion/test_chat_echo.py", "openai/chat_completion/test_chat_logit_bias_validation.py",
         "openai/chat_completion/test_non_object_body_validation.py", "openai/chat_completion/test_completion_with_function_calling.py",
         "openai/chat_completion/test_include_reasoning.py", "openai/chat_completion/test_enable_force_include_usage.py",
         "openai/models/test_models.py", "openai/test_chunked_prompt.py", "openai/test_return_token_ids.py",
         "openai/test_return_tokens_as_ids.py", "openai/responses/test_simple.py", "openai/responses/test_basic.py", "openai/responses/test_errors.py",
         "anthropic/test_messages.py", "serve/tokenize/test_tokenization.py", "serve/instrumentator/test_basic.py",
         "scale_out/token_in_token_out/test_serving_tokens.py"]
MODEL = "what another model says"
OPTION = "an option of their server"
INSIDE = "classes inside of vLLM"
ELSEWHERE = [
    ("to_sampling_params|_to_sampling|bad_words_default|routed_experts|stop_holdback|non_object_body|model_validate|logit_bias_(valid|invalid)|"
     "responses/test_errors|null_top_logprobs|_n_parameter_(default|various|exceeds|at_limit|custom|massive)|reasoning_effort|long_seed|"
     "responses_api_logprobs_with|prompt_embeds|engine_dead", INSIDE),
    ("test_single_completion|test_completion_streaming|test_complex_message|test_single_chat_session|response_format_json|n_parameter_non_streaming|"
     "more_than_one_prompt_logprobs|with_tool_use|with_emoji|function_tool_use|no_args_tool_call|test_basic.py.*(simple_input|instructions|"
     "chat)|reasoning_tokens_e2e|test_max_tokens|include_reasoning|reasoning_tokens_in_usage|default_includes_reasoning|"
     "anthropic_tool_call|structured_outputs_json|named_tool_use|test_comparison|test_server_load", MODEL),
    ("per_request_metrics|force_include_usage|check_models|completion\\[True\\]|tokenize_completions|tokenize_chat|show_version|lora_adapter", OPTION),
    ("test_chat_streaming", "text in the last chunk, which a token that ends it does not have"),
    ("stop_string_workflow", "stop strings where ids alone come back, which are served here"),
    ("with_return_token_strs", "tokens as a tokenizer's file spells them")]


def main():
    root = sources("vllm", "0.33.0", KEPT)
    if root is None:
        print("SKIPPED: the source package of vllm could not be had")
        return 0
    good = True
    for name in sys.argv[6:] or FILES:
        plugins = ["vllm_served_plugin", "tests.entrypoints.conftest", *(["tests.entrypoints.openai.responses.conftest"] if "/responses/" in name else [])]
        found = suite.run(root, os.path.join("tests", "entrypoints", name), plugins, ["--noconftest"], TUTTI_URL=URL)
        good = suite.report(f"vLLM served {name}", found, ELSEWHERE) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
