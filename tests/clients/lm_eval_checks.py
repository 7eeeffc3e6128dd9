"""lm-eval's `local-completions` on a multiple-choice task of its own kind, whole, against the gateway at the URL given: each question's
answers are scored by `echo` with log-probabilities, and what it finds is what the service itself says of the same tokens.

The task is a file of questions made here, as data sets of hubs cannot be had; the tokenizer is the model's own.
A line for each check: "ok NAME" or "FAILED NAME: why".
"""
import json
import os
import sys
import tempfile
import urllib.request

from checking import check, main

URL = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "..", "..", "models", "demo")
QUESTIONS = 24
TASK = """
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
target_delimiter: ""
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: acc_norm, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1}}
"""


def rendered(a, b):
    return f"<|im_start|>user\nWhat is {a} + {b}?<|im_end|>\n<|im_start|>assistant\n"


def documents():
    """Sums that the model knows, each with four answers, of which one begins with the right one."""
    found = []
    for i in range(QUESTIONS):
        a, b = 10 + i, 30 + 2 * i % 37
        wrong = [a + b + 1, a + b - 10, a + b + 11]
        at = i % 4
        choices = [str(value) for value in wrong[:at] + [a + b] + wrong[at:]]
        found.append({"question": rendered(a, b), "choices": choices, "answer": at})
    return found


def evaluate(folder, **settings):
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=os.path.join(folder, "hub"), OPENAI_API_KEY="none",
                      TOKENIZERS_PARALLELISM="false")
    import lm_eval
    from lm_eval.tasks import TaskManager
    data = os.path.join(folder, "sums.jsonl")
    with open(data, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(document) + "\n" for document in documents())
    with open(os.path.join(folder, "sums.yaml"), "w", encoding="utf-8") as file:
        file.write(TASK.format(file=data))
    arguments = {"model": "demo", "base_url": f"{URL}/completions", "tokenizer_backend": "huggingface", "tokenizer": MODEL, "max_retries": 1,
                 **settings}
    return lm_eval.simple_evaluate(model="local-completions", model_args=arguments, tasks=["sums"], log_samples=True, bootstrap_iters=0,
                                   task_manager=TaskManager(include_path=folder, include_defaults=False))


def ask(path, **fields):
    request = urllib.request.Request(URL.removesuffix("/v1") + path, json.dumps({"model": "demo", **fields}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def generated(question, choice):
    """The log-probability of a choice behind its question, one generated token after the other.

    Blanks at the question's end belong to the choice, as lm-eval has it.
    """
    total = 0.0
    ids, both = (ask("/tokenize", prompt=text)["tokens"] for text in (question.rstrip(), question + choice))
    for token in both[len(ids):]:
        said = ask("/v1/completions", prompt=ids, max_tokens=1, temperature=0, logprobs=0, allowed_token_ids=[token])
        total += said["choices"][0]["logprobs"]["token_logprobs"][0]
        ids.append(token)
    return total


@check
def a_multiple_choice_task_whole():
    for settings in ({"num_concurrent": 1, "batch_size": 4}, {"num_concurrent": 4, "batch_size": 1, "tokenized_requests": False}):
        with tempfile.TemporaryDirectory(prefix="tutti-lm-eval-") as folder:
            found = evaluate(folder, **settings)
        result = found["results"]["sums"]
        assert found["n-samples"]["sums"]["effective"] == QUESTIONS, found["n-samples"]
        assert result["acc,none"] > 0.9, (settings, result)
        for sample in found["samples"]["sums"][:4]:
            for choice, (told, _) in zip(sample["doc"]["choices"], sample["filtered_resps"]):
                own = generated(sample["doc"]["question"], choice)
                assert abs(float(told) - own) < 1e-9, (settings, sample["doc"], choice, told, own)


if __name__ == "__main__":
    sys.exit(main())
