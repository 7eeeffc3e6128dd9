"""Peers that are libraries of Python: a driver of ours runs under an interpreter that has them, and times every token."""
import json
import os
import signal
import time

import programs
import readings
import token_times as timed
import work as works

DRIVERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "drivers")


class Peer:
    """A driver, from start() to end(). What is not asked is stopped (SIGSTOP), so that it takes nothing from the others."""

    def __init__(self, name, python, driver, arguments, threads, vocabulary):
        self.name, self.vocabulary, self.threads = name, vocabulary, threads
        self.command = [python, os.path.join(DRIVERS, driver), str(threads), *arguments]
        self.settings, self.conversation, self.serves_not = {}, None, ""
        if not os.access(python, os.X_OK):
            raise programs.ProgramError(f"no interpreter {python}")

    def start(self):
        # What a peer runs at start (a compiler's build tool, say) lies beside its interpreter; nothing is fetched.
        environment = {**os.environ, "PATH": os.path.dirname(self.command[0]) + os.pathsep + os.environ.get("PATH", ""),
                       "OMP_NUM_THREADS": str(self.threads), "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
        began = time.monotonic()
        self.conversation = programs.Conversation(self.command, environment)
        ready = readings.driver(self.conversation.answer(programs.START_PATIENCE_S), "settings", dict)
        self.serves_not = str(ready.pop("serves_not", ""))
        self.settings = {**ready, "start_s": round(time.monotonic() - began, 1)}
        self._ask(works.warm_up_prompts(self.vocabulary), works.WARM_UP_ANSWER)
        self.conversation.signal(signal.SIGSTOP)

    def end(self):
        if self.conversation is not None:
            self.conversation.end()
            self.conversation = None

    def lacks(self, work):
        """Why it cannot do this work; "": it can."""
        if work.kind == "layers":
            return "one process only"
        return self.serves_not if work.kind == "server" else ""

    def measure(self, work, number):
        self.conversation.signal(signal.SIGCONT)
        try:
            # One prompt untimed, as the programs of Tutti and llama.cpp do: threads wake, and what a new length needs is made.
            self._ask(work.warm_up(number, self.vocabulary), works.WARM_UP_ANSWER)
            return timed.values(work, self._ask(work.prompts(number, self.vocabulary), work.answer))
        finally:
            self.conversation.signal(signal.SIGSTOP)

    def _ask(self, prompts, tokens):
        self.conversation.tell(json.dumps({"prompts": prompts, "tokens": tokens}))
        times = readings.driver(self.conversation.answer(programs.COMMAND_PATIENCE_S), "times", list)
        return readings.token_times(times, len(prompts), tokens)


def vllm(python, model, threads, vocabulary):
    return Peer("vllm", python, "ask_vllm.py", [model], threads, vocabulary)


def torch(python, model, threads, vocabulary):
    return Peer("torch", python, "ask_torch.py", [model], threads, vocabulary)


def openvino(python, folder, threads, vocabulary):
    return Peer("openvino", python, "ask_openvino.py", [folder], threads, vocabulary)
