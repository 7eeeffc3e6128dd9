"""What the cluster's controllers do to pods: Services, a StatefulSet that scales and rolls, a Deployment that rolls."""
import asyncio
import itertools
import threading
import time

from pod import Pod

LOOK_S = 0.05
PATIENCE_S = 240


def wait_for(condition, what):
    began = time.monotonic()
    while not condition():
        if time.monotonic() > began + PATIENCE_S:
            raise RuntimeError(f"{what}: not within {PATIENCE_S} s")
        time.sleep(LOOK_S)
    return time.monotonic() - began


class Services:
    """A proxy for each Service: a new connection goes to the next pod that is ready; those that stand stay, as with kube-proxy."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        # asyncio itself keeps no task alive.
        self.tasks = set()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def add(self, address, port, target, pods):
        turn = itertools.count()

        async def serve(reader, writer):
            self.tasks.add(asyncio.current_task())
            asyncio.current_task().add_done_callback(self.tasks.discard)
            ready = [pod for pod in pods() if pod.ready]
            if not ready:
                writer.transport.abort()
                return
            pod = ready[next(turn) % len(ready)]
            try:
                there = await asyncio.open_connection(pod.address, target)
            except OSError:
                writer.transport.abort()
                return
            ends = (writer, there[1])
            try:
                await asyncio.gather(self.pass_on(reader, there[1]), self.pass_on(there[0], writer))
            except OSError:
                for end in ends:
                    end.transport.abort()
            for end in ends:
                end.close()
        asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, address, port), self.loop).result()

    @staticmethod
    async def pass_on(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


class Owner:
    """Makes pods of a template and ends them; keeps what it noted about each."""

    def __init__(self, node, document, replace, volume, pace):
        self.node, self.document, self.replace, self.volume, self.pace = node, document, replace, volume, pace
        self.name = document["metadata"]["name"]
        self.pods, self.past = {}, []

    def make(self, key, name, *names):
        self.pods[key] = Pod(self.node, name, [name, *names], self.document["spec"]["template"], self.replace, self.volume)

    def all(self):
        return list(self.pods.values())

    def delete(self, *keys):
        threads = []
        for key in keys:
            pod = self.pods[key]
            threads.append(threading.Thread(target=pod.delete))
            threads[-1].start()
            self.past.append(pod)
        for thread in threads:
            thread.join()
        for key in keys:
            del self.pods[key]

    def wait_ready(self):
        took = wait_for(lambda: all(pod.ready for pod in self.all()), f"{self.name} is ready")
        time.sleep(self.pace(self.document["spec"].get("minReadySeconds", 0)))
        return took

    def notes(self):
        return [note for pod in [*self.past, *self.all()] for note in pod.notes]

    def longest_end_s(self):
        return max((pod.ended_s for pod in self.past if pod.ended_s is not None), default=0.0)


class StatefulSet(Owner):
    def make_ordinal(self, ordinal):
        name = f"{self.name}-{ordinal}"
        self.make(ordinal, name, f"{name}.{self.document['spec']['serviceName']}")

    def scale(self, replicas):
        for ordinal in range(replicas):
            if ordinal not in self.pods:
                self.make_ordinal(ordinal)
        self.delete(*[ordinal for ordinal in sorted(self.pods, reverse=True) if ordinal >= replicas])
        return self.wait_ready()

    def roll(self):
        """From the highest ordinal down, one at a time."""
        for ordinal in sorted(self.pods, reverse=True):
            self.delete(ordinal)
            self.make_ordinal(ordinal)
            self.wait_ready()

    def lose(self, ordinal, node_too, noticed_after_s):
        """A pod, or its node too, is lost; it leaves the Service when that is noticed, and comes again elsewhere."""
        pod = self.pods[ordinal]
        pod.lose(node_too)
        time.sleep(noticed_after_s)
        pod.terminating = True
        del self.pods[ordinal]
        self.make_ordinal(ordinal)
        return self.wait_ready()


class Deployment(Owner):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.serial = itertools.count()

    def make_next(self):
        number = next(self.serial)
        self.make(number, f"{self.name}-{number:05x}")

    def scale(self, replicas):
        while len(self.pods) < replicas:
            self.make_next()
        return self.wait_ready()

    def roll(self):
        """One more, then one less: maxSurge 1, maxUnavailable 0."""
        for key in list(self.pods):
            self.make_next()
            self.wait_ready()
            self.delete(key)
