#!/usr/bin/env python3
"""`tutti chat` at a terminal: greeting, editing, history, commands; and what Ctrl-C does.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/talk_test.py
"""
import fcntl
import os
import pty
import select
import signal
import stat
import subprocess
import tempfile
import termios
import time
import unittest

from harness import PATIENCE_S, TUTTI, Cluster, clean_environment, wait_until

UP, LEFT, ENTER, END_OF_INPUT = "\x1b[A", "\x1b[D", "\r", "\x04"


def is_cooked(fd):
    """Whether the terminal shows what is typed, line by line, as a shell expects it."""
    return termios.tcgetattr(fd)[3] & (termios.ICANON | termios.ECHO) == termios.ICANON | termios.ECHO


def take_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A program at a terminal of its own, and all that it has shown."""

    def __init__(self, *command, env):
        self.fd, theirs = pty.openpty()
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env,
                                        start_new_session=True,
                                        preexec_fn=take_terminal)
        os.close(theirs)
        self.shown = ""

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return
        try:
            self.shown += os.read(self.fd, 65536).decode(errors="replace")
        except OSError:  # the other end is closed
            time.sleep(0.01)

    def until(self, text):
        """What was shown from the last call up to this text."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} is not in {self.shown!r}")
            self.read(0.2)
        before, _, self.shown = self.shown.partition(text)
        return before

    def prompt(self):
        """Waits for it, and until keys are read as they come."""
        self.until("> ")
        wait_until(lambda: not is_cooked(self.fd), "lines are edited")

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.1)
        if self.process.poll() is None:
            self.process.kill()
        os.close(self.fd)
        return self.process.wait()


class Talk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(workers=1)
        cls.home = tempfile.TemporaryDirectory(prefix="tutti-home-")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        cls.cluster.cleanup()
        cls.home.cleanup()

    def chat(self, *arguments, address=None):
        env = clean_environment(TUTTI_ADDRESS=address or self.cluster.address, HOME=self.home.name, XDG_STATE_HOME="",
                                TERM="xterm", NO_COLOR="1", LC_ALL="C.UTF-8")
        return Terminal(TUTTI, "chat", "--temperature", "0", *arguments, env=env)

    def test_greets_answers_and_remembers(self):
        first = self.chat()
        self.assertIn("This is demo, with a context of", first.until("/help shows the commands"))
        first.prompt()
        first.type("What is 12 + 40?")
        first.type(LEFT * 2 + "\x7f3" + ENTER)  # 4 becomes 3
        first.until("\r\n42\r\n")
        first.prompt()
        first.type("/hlep" + ENTER)
        first.until("there is no command /hlep; did you mean /help?")
        first.type("/undo" + ENTER + "/undo" + ENTER)
        first.until("there is nothing to forget")
        first.prompt()  # between lines the terminal itself takes this key
        first.type(END_OF_INPUT)
        self.assertEqual(first.end(), 0)
        history = os.path.join(self.home.name, ".local", "state", "tutti", "chat_history")
        self.assertEqual(stat.S_IMODE(os.stat(history).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(history)).st_mode), 0o700)
        # A later conversation finds the question four lines back.
        second = self.chat()
        second.prompt()
        second.type(UP * 3 + ENTER)
        second.until("\r\n42\r\n")
        second.type("/exit" + ENTER)
        self.assertEqual(second.end(), 0)

    def test_a_line_goes_on_behind_a_backslash(self):
        chat = self.chat("--history", "off")
        chat.prompt()
        chat.type("What is\\" + ENTER)
        chat.until(". ")
        chat.type("12 + 30?" + ENTER)
        chat.prompt()
        chat.type("/help" + ENTER)
        chat.until("/system TEXT")
        chat.prompt()
        chat.type(END_OF_INPUT)
        self.assertEqual(chat.end(), 0)

    def test_an_interrupt_leaves_and_the_terminal_is_as_before(self):
        chat = self.chat("--history", "off")
        chat.prompt()
        chat.type("half a question")
        chat.until("question")
        kept = os.dup(chat.fd)
        os.killpg(chat.process.pid, signal.SIGINT)
        self.assertEqual(chat.end(), 130)
        self.assertTrue(is_cooked(kept), "a shell would show nothing that is typed")
        os.close(kept)

    def test_nobody_there_is_said_before_anything_is_typed(self):
        chat = self.chat(address="127.0.0.1:1")
        chat.until("nobody listens there; start one (tutti up --model DIR)")
        self.assertEqual(chat.end(), 3)


if __name__ == "__main__":
    unittest.main()
