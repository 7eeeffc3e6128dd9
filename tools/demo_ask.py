#!/usr/bin/env python3
"""Asks the demo model a few questions through `tutti chat` and says which answers are right.

Usage: demo_ask.py PATH_TO_TUTTI     (TUTTI_ADDRESS names the service, as `tutti up --exec` sets it)
Exit status: 0 when every answer is right, else 1.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
QUESTIONS = os.path.join(HERE, "..", "models", "demo", "questions.json")
SHOWN = 12  # a screenful


def ask(tutti, messages):
    """The answer to a conversation of one user message."""
    question = messages[-1]["content"]
    done = subprocess.run([tutti, "chat", "--message", question, "--temperature", "0"], text=True,
                          capture_output=True, timeout=60)
    if done.returncode != 0:
        raise SystemExit(f"demo: tutti chat failed: {done.stderr.strip()}")
    return question, done.stdout.strip()


def pick(questions):
    """Evenly spread over the file, so that every kind of task is shown."""
    step = max(1, len(questions) // SHOWN)
    return questions[::step][:SHOWN]


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with open(QUESTIONS, encoding="utf-8") as file:
        questions = pick(json.load(file))
    green, red, plain = ("\033[32m", "\033[31m", "\033[0m") if sys.stdout.isatty() else ("", "", "")
    right = 0
    print()
    for item in questions:
        question, answer = ask(sys.argv[1], item["messages"])
        good = answer == item["answer"].strip()
        right += good
        mark = f"{green}right{plain}" if good else f"{red}WRONG, it is {item['answer']}{plain}"
        print(f"  {question:44} {answer:24} {mark}", flush=True)
    print(f"\n  {right} of {len(questions)} answers are right\n")
    return 0 if right == len(questions) else 1


try:
    sys.exit(main())
except KeyboardInterrupt:
    print("\ndemo: stopped")
    sys.exit(130)
