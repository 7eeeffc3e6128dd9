"""Checkpoints of random weights, made beside the first steps: they take only the processor."""
import json
import os
import shutil
import subprocess
import tempfile

import processes
from settings import COMMON, HEAD_SCALE, SHAPES, TINY


class Checkpoints:
    """By shape, each made by a process of its own."""

    def __init__(self, program, environment, scratch, tokenizer, is_small):
        self.program, self.environment, self.scratch = program, environment, scratch
        self.tokenizer = tokenizer
        self.is_small = is_small
        self.made = {}  # shape: the process that makes it, and its folder

    def start(self, shape):
        shape = "tiny" if self.is_small else shape
        if shape in self.made:
            return shape
        # Twice the largest model, or the disk.
        in_memory = os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 36 << 30
        folder = tempfile.mkdtemp(prefix=f"gpu_check_{shape}_", dir="/dev/shm" if in_memory else None)
        config = os.path.join(self.scratch, f"config-{shape}.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({**COMMON, **(TINY if self.is_small else SHAPES[shape])}, file)
        command = [self.program, "--config", config, "--output", folder, "--seed", "1", "--head-scale", str(HEAD_SCALE),
                   "--copy-tokenizer", self.tokenizer]
        with open(os.path.join(self.scratch, f"make-{shape}.log"), "wb") as log:
            process = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        self.made[shape] = (process, folder)
        return shape

    def folder(self, shape, seconds):
        """Waits until it is made."""
        shape = self.start(shape)
        process, folder = self.made[shape]
        try:
            process.wait(max(1, seconds))
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the checkpoint {shape} was not made within {seconds:.0f} s") from None
        if process.returncode != 0:
            with open(os.path.join(self.scratch, f"make-{shape}.log"), errors="replace", encoding="utf-8") as log:
                raise RuntimeError(f"make_random_model {processes.how(process.returncode)}: {log.read()[-1000:]}")
        return folder

    def clean(self):
        for process, folder in self.made.values():
            processes.end_group(process)
            shutil.rmtree(folder, ignore_errors=True)
