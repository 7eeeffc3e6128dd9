#!/usr/bin/env python3
"""Workers without the checkpoint on their disks: what they get over the link, and what goes wrong on the way.

By hand:  TUTTI_BINARY_DIR=build/release python3 tests/e2e/weights_link_test.py
"""
import glob
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import unittest
import urllib.request

from harness import BINARIES, DEMO, PATIENCE_S, SLOWNESS, clean_environment, tutti, wait_until

SLOW = "300KB"  # a second, so that a fetch of some MB can be watched


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def split_checkpoint(source, folder):
    """A copy of a checkpoint with a file of its own for each layer and for the rest; {file: tensors}."""
    shutil.copytree(source, folder)
    whole = os.path.join(folder, "model.safetensors")
    data = read_file(whole)
    os.remove(whole)
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    files = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1].get("data_offsets", [0])[0]):
        if name == "__metadata__":
            continue
        layer = re.search(r"\.layers\.(\d+)\.", name)
        files.setdefault(f"part-{layer.group(1) if layer else 'ends'}.safetensors", {})[name] = entry
    for file, tensors in files.items():
        at, new_header, parts = 0, {}, []
        for name, entry in tensors.items():
            begin, end = entry["data_offsets"]
            new_header[name] = {**entry, "data_offsets": [at, at + end - begin]}
            parts.append(data[8 + length + begin:8 + length + end])
            at += end - begin
        text = json.dumps(new_header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, file), "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    index = {"weight_map": {name: file for file, tensors in files.items() for name in tensors}}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as out:
        json.dump(index, out)
    return files


class FlippingProxy:
    """Passes connections on to a port, and changes a byte of each of `patterns` on its way back while it is told to.

    One may be cut by the end of what is read at once, or of an HTTP/2 frame, so there are several."""

    def __init__(self, port, patterns):
        self.port, self.patterns, self.flips = port, patterns, True
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.flipped = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.port))
            threading.Thread(target=self.pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(far, near, True), daemon=True).start()

    def pump(self, source, sink, back):
        try:
            while data := source.recv(1 << 16):
                for pattern in self.patterns if back and self.flips else []:
                    found = data.find(pattern)
                    if found >= 0:
                        self.flipped += 1
                        data = data[:found] + bytes([data[found] ^ 1]) + data[found + 1:]
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


class WeightsLink(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model = self.path("model")
        self.files = split_checkpoint(DEMO, self.model)
        self.env = clean_environment(TUTTI_ADDRESS=f"unix:{self.path('api')}")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, program, name, *arguments, before=()):
        with open(self.path(name + ".log"), "a", encoding="utf-8") as log:
            process = subprocess.Popen([*before, os.path.join(BINARIES, program), *arguments], stdout=log,
                                       stderr=log, env=clean_environment(XDG_CACHE_HOME=self.path("caches")))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def coordinator(self, *arguments, peers=None, stages=2):
        ready = self.path("ready.json")
        if os.path.exists(ready):
            os.remove(ready)
        process = self.start("tutti-coordinator", "coordinator", "--model", self.model, "--listen",
                             f"unix:{self.path('api')}", "--peer-listen", peers or f"unix:{self.path('peers')}",
                             "--pipeline-parallel-size", str(stages), "--kv-tokens", "4096",
                             "--metrics", "127.0.0.1:0", "--ready-file", ready, *arguments)
        wait_until(lambda: os.path.exists(ready), "the coordinator listens")
        with open(ready, encoding="utf-8") as file:
            self.metrics = json.load(file)["metrics"]
        return process

    def worker(self, name, *arguments, coordinator=None, before=()):
        peers = []
        for peer in ("w0", "w1"):
            if peer != name:
                peers += ["--peer", f"{peer}=unix:{self.path(peer)}"]
        return self.start("tutti-worker", name, "--worker-id", name, "--threads", "1", "--speed", "off",
                          "--memory", "512MiB", "--coordinator", coordinator or f"unix:{self.path('peers')}",
                          "--listen", f"unix:{self.path(name)}", *peers, *arguments, before=before)

    def log(self, name):
        with open(self.path(name + ".log"), encoding="utf-8") as file:
            return file.read()

    def status(self):
        done = tutti("status", "--json", env=self.env)
        return json.loads(done.stdout) if done.stdout.startswith("{") else {}

    def wait_serving(self, what):
        return wait_until(lambda: (status := self.status()).get("serving") and status, what)

    def stages(self, status):
        return {stage["worker"]["worker_id"]: stage for pipeline in status.get("pipelines", [])
                for stage in pipeline.get("stages", []) if "worker" in stage}

    def sent(self):
        """Bytes of the checkpoint that this coordinator has sent."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as page:
            text = page.read().decode()
        return int(float(re.search(r"^tutti_weights_sent_bytes_total (\S+)$", text, re.M).group(1)))

    def size(self, *names):
        return sum(os.path.getsize(os.path.join(self.model, name)) for name in names)

    def shard_files(self, stage):
        """Those that hold a tensor of the stage, each shorter than a chunk."""
        layers = range(int(stage.get("first_layer", 0)),
                       int(stage.get("first_layer", 0)) + int(stage["num_layers"]))
        names = [f"part-{layer}.safetensors" for layer in layers]
        if stage.get("has_embedding") or stage.get("has_head"):
            names.append("part-ends.safetensors")
        for name in names:
            self.assertLess(self.size(name), 1 << 20)
        return names

    def answer(self):
        """Ids and log-probabilities of an answer's tokens."""
        done = tutti("generate", "--prompt", "What is 12 + 30?", "--max-tokens", "24", "--ignore-eos", "--logprobs",
                     "--temperature", "0", "--json", env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        tokens = []
        for line in done.stdout.splitlines():
            tokens += [(token["id"], token["logprob"]) for token in json.loads(line)["tokens"]]
        self.assertEqual(len(tokens), 24, done.stdout)
        return tokens

    def cached(self, name="w1"):
        return glob.glob(self.path("caches", "tutti", "weights", name, "*"))[0]

    def end(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        process.wait(timeout=PATIENCE_S)

    def test_codes_of_several_formats_come_too(self):
        """Which matrices are codes, and in which format, is known to a worker only when it has the tensors' names."""
        subprocess.run([os.path.join(BINARIES, "..", "tests", "quantised_checkpoint"), "mixed", DEMO, self.path("made")], check=True)
        shutil.rmtree(self.model)
        self.files = split_checkpoint(self.path("made", "codes"), self.model)
        for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            shutil.copy(os.path.join(DEMO, name), self.model)
        answers = []
        for flags in (("--model", self.model), ()):
            processes = [self.coordinator(), self.worker("w0", *flags), self.worker("w1", *flags)]
            for stage in self.stages(self.wait_serving("both serve")).values():
                self.assertEqual(stage["actual"]["weights"], stage["predicted"]["weights"])
            answers.append(self.answer())
            self.assertEqual(self.sent() > 0, not flags)
            for process in processes:
                self.end(process)
        self.assertEqual(*answers)

    def test_a_worker_gets_its_shard_once_and_answers_the_same(self):
        coordinator = self.coordinator()
        workers = [self.worker("w0", "--model", self.model), self.worker("w1", "--model", self.model)]
        self.wait_serving("both have the checkpoint")
        expected = self.answer()
        self.assertEqual(self.sent(), 0)
        for process in (coordinator, *workers):
            self.end(process)

        self.coordinator()
        self.worker("w0", "--model", self.model)
        fetching = self.worker("w1")
        stage = self.stages(self.wait_serving("w1 has fetched its shard"))["w1"]
        self.assertEqual(self.answer(), expected)
        shard = self.shard_files(stage)
        self.assertLess(len(shard), len(self.files))
        texts = self.size("config.json", "model.safetensors.index.json")
        self.assertEqual(self.sent(), texts + self.size(*shard))
        self.assertEqual(sorted(os.listdir(self.cached())),
                         sorted([".lock", "config.json", "model.safetensors.index.json", *shard]))
        for name in shard:
            self.assertEqual(read_file(os.path.join(self.cached(), name)),
                             read_file(os.path.join(self.model, name)))

        # Started again it fetches nothing.
        before = self.sent()
        self.end(fetching)
        fetching = self.worker("w1")
        self.wait_serving("w1 is there again")
        self.assertEqual(self.sent(), before)
        self.assertEqual(self.answer(), expected)

        # Damaged, the one chunk.
        self.end(fetching)
        with open(os.path.join(self.cached(), shard[0]), "r+b") as file:
            file.seek(-9, os.SEEK_END)
            byte = file.read(1)
            file.seek(-9, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        self.worker("w1")
        self.wait_serving("w1 has mended its cache")
        self.assertEqual(self.sent(), before + self.size(shard[0]))
        self.assertIn("1 chunks with other bytes", self.log("w1"))
        self.assertEqual(self.answer(), expected)

    def test_a_coordinator_that_is_killed_midway(self):
        coordinator = self.coordinator("--weights-rate", SLOW, stages=1)
        worker = self.worker("w1")

        def part_way():
            stage = self.stages(self.status()).get("w1", {})
            return re.fullmatch(r"fetched [1-9]\d* %, [\d.]+ [KM]iB of [\d.]+ MiB, [\d.]+ [KM]iB/s, from the coordinator",
                                stage.get("fetch", ""))
        wait_until(part_way, "a part has come")
        self.assertIn("w1 fetched", tutti("status", env=self.env).stdout)
        # Longer than the lease, and nobody is taken for lost.
        wait_until(lambda: self.sent() > 900_000, "it takes seconds")
        self.assertNotIn("lost", self.log("coordinator"))
        had = self.sent()
        coordinator.kill()
        coordinator.wait()
        wait_until(lambda: "closed the link" in self.log("w1"), "the worker has seen it")
        self.assertIsNone(worker.poll())

        self.coordinator(stages=1)
        self.wait_serving("what was missing has come")
        everything = self.size("config.json", "model.safetensors.index.json", *self.files)
        self.assertLessEqual(self.sent(), everything - had + (1 << 20))
        self.assertGreater(self.sent(), 0)
        self.answer()

    def test_a_worker_that_waits_or_fetches_ends_when_told(self):
        worker = self.worker("w1")
        wait_until(lambda: "no weights from the coordinator" in self.log("w1"), "it waits")
        self.end(worker)
        self.assertEqual(worker.returncode, 0)

        self.coordinator("--weights-rate", "20KB", stages=1)
        worker = self.worker("w1")
        wait_until(lambda: "fetching" in self.log("w1"), "it fetches")
        worker.terminate()
        worker.wait(timeout=4 * SLOWNESS)
        self.assertEqual(worker.returncode, 0)

    def test_a_byte_that_changes_on_the_way_is_named(self):
        secret = self.path("secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("x" * 32)
        os.chmod(secret, 0o600)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.coordinator("--cluster-secret-file", secret, peers=f"127.0.0.1:{port}", stages=1)
        data = read_file(os.path.join(self.model, "part-ends.safetensors"))
        places = [len(data) * eighths // 8 for eighths in range(1, 8)]
        proxy = FlippingProxy(port, [data[place:place + 16] for place in places])
        self.addCleanup(proxy.close)
        self.worker("w1", "--cluster-secret-file", secret, coordinator=proxy.address)
        why = wait_until(lambda: "changed on the way" in (why := self.status().get("why_not_serving", "")) and why,
                         "the status says it")
        self.assertIn("part-ends.safetensors, bytes 0 to", why)
        self.assertIn(proxy.address, why)
        self.assertGreaterEqual(proxy.flipped, 3)
        proxy.flips = False
        self.wait_serving("serving once the way is right")

    def test_a_full_disk_is_named(self):
        small = self.path("small")
        os.mkdir(small)
        mount = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=600k tmpfs {small} && exec \"$@\"", "sh"]
        if subprocess.run([*mount, "true"], capture_output=True).returncode != 0:
            self.skipTest("no mounts of our own here")
        self.coordinator(stages=1)
        self.worker("w1", "--model-cache", small, before=mount)
        why = wait_until(lambda: "room for" in (why := self.status().get("why_not_serving", "")) and why,
                         "the status says it")
        self.assertIn("--model-cache", why)

    def test_a_folder_is_one_workers(self):
        self.coordinator(stages=1)
        self.worker("w1", "--model-cache", self.path("cache"))
        self.wait_serving("w1 serves")
        other = self.worker("w0", "--model-cache", self.path("cache"))
        self.assertEqual(other.wait(timeout=PATIENCE_S), 1)
        self.assertIn("another worker's", self.log("w0"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
