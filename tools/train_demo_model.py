#!/usr/bin/env python3
"""Trains models/demo from nothing, on one CPU thread, with questions made by demo_questions.py.

    tools/train_demo_model.py train       writes checkpoints to --work; can be resumed
    tools/train_demo_model.py export      the newest checkpoint, as bf16, into models/demo
    tools/train_demo_model.py smoke       models/demo/questions.json: held-out questions it answers
    tools/train_demo_model.py evaluate    accuracy of models/demo in bf16 on held-out questions

The loss counts answer tokens only. Matrices are trained with orthogonalised momentum (Muon), all
else with AdamW; both follow one warm-up and cosine. Tasks that still fail are drawn more often.

Requirements (PyPI): torch, transformers, tokenizers, safetensors.
"""

import argparse
import math
import pathlib
import random
import sys
import time

import torch
import transformers
from safetensors.torch import save_file

import demo_questions as questions
import qwen_tokenizer
from demo_model import CONTEXT, Muon, config_json, new_model
from demo_tokenizer import DemoTokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "demo"

TASK_WEIGHTS = {"add": 26, "subtract": 26, "sort": 24, "spell": 18, "capital": 5, "identity": 1}
TASK_FLOOR = 0.15
MULTI_TURN_SHARE = 0.1
SYSTEM_SHARE = 0.05
LONGEST_CONVERSATION = 3

BATCH = 256
CHUNK_TOKENS = 3000
MUON_RATE = 0.02
ADAM_RATE = 3e-3
WARMUP_STEPS = 60
FINAL_RATE = 0.02
EVALUATE_EVERY = 250
EVALUATE_COUNT = 100
LONGEST_ANSWER = 48
SMOKE_COUNT = 7


# --- training ------------------------------------------------------------------------------------


def optimizers_of(model):
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    adam = torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.98), weight_decay=0.0)
    return [(Muon(matrices, lr=MUON_RATE), MUON_RATE), (adam, ADAM_RATE)]


def rate_factor(step, steps):
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    done = (step - WARMUP_STEPS) / max(1, steps - WARMUP_STEPS)
    return FINAL_RATE + (1 - FINAL_RATE) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def make_conversation(rng, tokenizer, tasks, weights):
    """(ids, is_answer) of a chat of one to three questions, maybe with a system message."""
    turns = rng.randint(2, LONGEST_CONVERSATION) if rng.random() < MULTI_TURN_SHARE else 1
    system = rng.choice(questions.SYSTEM_MESSAGES) if rng.random() < SYSTEM_SHARE else None
    ids, is_answer = [], []
    for turn in range(turns):
        question = questions.make_question(rng, rng.choices(tasks, weights)[0], held_out=False)
        prompt = tokenizer.prompt(question.text, system if turn == 0 else None)
        answer = tokenizer.answer(question)
        if turn > 0:
            prompt = tokenizer.newline + prompt
        ids += prompt + answer
        is_answer += [False] * len(prompt) + [True] * len(answer)
    return ids, is_answer


def chunks_of(conversations):
    """Conversations of like length, padded on the right, where causal attention never looks."""
    conversations = sorted(conversations, key=lambda item: len(item[0]))
    start = 0
    while start < len(conversations):
        end = start + 1
        while (
            end < len(conversations)
            and (end + 1 - start) * len(conversations[end][0]) <= CHUNK_TOKENS
        ):
            end += 1
        rows = conversations[start:end]
        width = len(rows[-1][0])
        ids = torch.tensor([row + [0] * (width - len(row)) for row, _ in rows])
        is_answer = torch.tensor([mask + [False] * (width - len(mask)) for _, mask in rows])
        yield ids, is_answer
        start = end


def train_step(model, optimizers, conversations):
    answers = sum(sum(is_answer) for _, is_answer in conversations)
    total = 0.0
    for ids, is_answer in chunks_of(conversations):
        hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        wanted = is_answer[:, 1:]
        logits = model.lm_head(hidden[wanted])
        loss = (
            torch.nn.functional.cross_entropy(logits, ids[:, 1:][wanted], reduction="sum") / answers
        )
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer, _ in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return total


def train(options):
    tokenizer = DemoTokenizer()
    model = new_model(tokenizer)
    optimizers = optimizers_of(model)
    options.work.mkdir(parents=True, exist_ok=True)
    checkpoint = options.work / "checkpoint.pt"
    step, accuracy = 0, {task: 0.0 for task in questions.TASKS}
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        for (optimizer, _), saved in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        step, accuracy = state["step"], state["accuracy"]
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters} parameters, vocabulary {tokenizer.size}, from step {step}", flush=True)
    started = time.monotonic()
    recent = []
    while step < options.steps:
        rng = random.Random(f"train {step}")
        weights = [TASK_WEIGHTS[t] * (TASK_FLOOR + 1 - accuracy[t]) for t in questions.TASKS]
        batch = [
            make_conversation(rng, tokenizer, questions.TASKS, weights)
            for _ in range(options.batch)
        ]
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * rate_factor(step, options.steps)
        recent.append(train_step(model, optimizers, batch))
        step += 1
        if step % EVALUATE_EVERY == 0 or step == options.steps:
            accuracy = accuracies(model, tokenizer, EVALUATE_COUNT, seed=1)
            report = " ".join(f"{task} {share:.2f}" for task, share in accuracy.items())
            loss = sum(recent) / len(recent)
            recent = []
            print(
                f"{time.monotonic() - started:6.0f} s  step {step}  loss {loss:.4f}  {report}",
                flush=True,
            )
            state = {
                "model": model.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer, _ in optimizers],
                "step": step,
                "accuracy": accuracy,
            }
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)


# --- examination ---------------------------------------------------------------------------------


@torch.no_grad()
def greedy_answers(model, tokenizer, asked):
    """Greedy answers to the questions, those with prompts of one length together."""
    by_length = {}
    for index, question in enumerate(asked):
        by_length.setdefault(len(tokenizer.prompt(question.text)), []).append(index)
    answers = [None] * len(asked)
    for indices in by_length.values():
        feed = torch.tensor([tokenizer.prompt(asked[i].text) for i in indices])
        cache = transformers.DynamicCache()
        outputs = [[] for _ in indices]
        for _ in range(LONGEST_ANSWER):
            logits = model(feed, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[
                :, -1
            ]
            feed = logits.argmax(-1, keepdim=True)
            for output, token in zip(outputs, feed[:, 0].tolist()):
                output.append(token)
            if all(tokenizer.end in output for output in outputs):
                break
        for index, output in zip(indices, outputs):
            ended = output[: output.index(tokenizer.end)] if tokenizer.end in output else output
            answers[index] = tokenizer.fast.decode(ended, skip_special_tokens=False)
    return answers


def accuracies(model, tokenizer, count, seed, show_wrong=0):
    """The share of held-out questions of each task answered exactly."""
    model.eval()
    result = {}
    for task in questions.TASKS:
        asked = questions.held_out_questions(task, count, seed)
        answers = greedy_answers(model, tokenizer, asked)
        wrong = [(q, a) for q, a in zip(asked, answers) if a != q.answer]
        for question, answer in wrong[:show_wrong]:
            print(f"  wrong: {question.text!r} -> {answer!r}, not {question.answer!r}")
        result[task] = 1 - len(wrong) / len(asked)
    model.train()
    return result


def load_exported(dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(
        MODEL, dtype=dtype, attn_implementation="eager"
    )


def evaluate(options):
    tokenizer = DemoTokenizer()
    model = load_exported(getattr(torch, options.dtype))
    for task in questions.TASKS:
        count = len(questions.held_out_questions(task, options.count, options.seed))
        print(f"{task}: {count} questions")
    for task, share in accuracies(
        model, tokenizer, options.count, options.seed, options.show_wrong
    ).items():
        print(f"{task}: {100 * share:.1f} %")


def smoke(options):
    """A list to try a build with, not an examination: only questions the model answers right."""
    tokenizer = DemoTokenizer()
    model = load_exported(torch.bfloat16)
    chosen = []
    for task in questions.TASKS:
        asked = questions.held_out_questions(task, 4 * SMOKE_COUNT, options.seed)
        answers = greedy_answers(model, tokenizer, asked)
        right = [q for q, answer in zip(asked, answers) if answer == q.answer][:SMOKE_COUNT]
        for question in right:
            messages = [{"role": "user", "content": question.text}]
            chosen.append({"task": task, "messages": messages, "answer": question.answer})
    qwen_tokenizer.write_json(MODEL / "questions.json", chosen)
    print(f"{len(chosen)} questions")


# --- export --------------------------------------------------------------------------------------


def export(options):
    tokenizer = DemoTokenizer()
    state = torch.load(options.work / "checkpoint.pt", weights_only=True)
    weights = {
        name: tensor.to(torch.bfloat16).contiguous()
        for name, tensor in state["model"].items()
        if name != "lm_head.weight"
    }
    MODEL.mkdir(parents=True, exist_ok=True)
    save_file(weights, MODEL / "model.safetensors", metadata={"format": "pt"})
    (MODEL / "model.safetensors").chmod(0o644)
    write_json = qwen_tokenizer.write_json
    write_json(MODEL / "config.json", config_json(tokenizer))
    write_json(MODEL / "tokenizer.json", tokenizer.json)
    write_json(
        MODEL / "tokenizer_config.json",
        qwen_tokenizer.tokenizer_config_json(tokenizer.json, CONTEXT),
    )
    end_of_text = tokenizer.special[qwen_tokenizer.END_OF_TEXT]
    generation = {
        "bos_token_id": end_of_text,
        "do_sample": False,
        "eos_token_id": [tokenizer.end, end_of_text],
        "pad_token_id": end_of_text,
        "transformers_version": "4.51.0",
    }
    write_json(MODEL / "generation_config.json", generation)
    print(
        f"step {state['step']}: {sum(f.stat().st_size for f in MODEL.iterdir())} bytes in {MODEL}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=("train", "export", "smoke", "evaluate"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/tutti-demo"))
    parser.add_argument("--steps", type=int, default=4500)
    parser.add_argument("--batch", type=int, default=BATCH, help="conversations a step")
    parser.add_argument("--count", type=int, default=1000, help="held-out questions of each task")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--show-wrong", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    commands = {"train": train, "export": export, "smoke": smoke, "evaluate": evaluate}
    commands[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
