"""A proxy between two processes that does to their bytes what networks do: holds, swallows, delays, throttles, flips,
resets. All proxies of a run live in one thread with an event loop (`Proxies`); their methods may be called from any."""
import asyncio
import random
import socket
import struct
import threading

CHUNK = 65536
# A connection's bytes on their way in one direction, at most; beyond it the sender waits, as with a full socket.
QUEUED_CHUNKS = 64


def split_address(address):
    """("unix", path) or (host, port)."""
    if address.startswith("unix:"):
        return "unix", address[len("unix:"):]
    host, port = address.rsplit(":", 1)
    return host, int(port)


async def dial(address):
    host, port = split_address(address)
    if host == "unix":
        return await asyncio.open_unix_connection(port)
    return await asyncio.open_connection(host, port)


class Direction:
    """What is done to the bytes of one direction. `there` is from the dialling end to the listening one."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.delay_s = (0.0, 0.0)     # of each chunk, drawn between the two
        self.bytes_per_s = 0          # 0: as fast as they come
        self.flips = 0                # bits still to be flipped, one in each chunk
        self.flipped = 0
        self.swallows = False         # bytes vanish, the connection stays open
        self.open = asyncio.Event()   # cleared: bytes are held, and come later
        self.open.set()

    def change(self, chunk):
        if self.flips <= 0:
            return chunk
        self.flips -= 1
        self.flipped += 1
        changed = bytearray(chunk)
        changed[self.random.randrange(len(changed))] ^= 1 << self.random.randrange(8)
        return bytes(changed)


class Connection:
    """One accepted connection and its twin to the target."""

    def __init__(self, proxy, near, far):
        self.ends = (near, far)   # each (reader, writer)
        self.spoilt = False       # bytes of it have been swallowed: it can never be right again
        self.tasks = [asyncio.ensure_future(self.take(near, far, proxy.there)),
                      asyncio.ensure_future(self.take(far, near, proxy.back))]

    async def take(self, source, target, direction):
        queue = asyncio.Queue(QUEUED_CHUNKS)
        giving = asyncio.ensure_future(self.give(queue, target, direction))
        loop = asyncio.get_running_loop()
        try:
            while chunk := await source[0].read(CHUNK):
                if direction.swallows:
                    self.spoilt = True
                    continue
                await queue.put((loop.time() + direction.random.uniform(*direction.delay_s), direction.change(chunk)))
            await queue.put((loop.time(), None))
            await giving
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            giving.cancel()
            self.close()

    async def give(self, queue, target, direction):
        loop = asyncio.get_running_loop()
        while True:
            due, chunk = await queue.get()
            if chunk is None:
                return
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            await direction.open.wait()
            if direction.bytes_per_s:
                await asyncio.sleep(len(chunk) / direction.bytes_per_s)
            try:
                target[1].write(chunk)
                await target[1].drain()
            except OSError:
                self.close()
                return

    def close(self):
        for _, writer in self.ends:
            writer.close()

    def reset(self):
        """As a machine answers that has forgotten the connection: what was on its way is gone."""
        for _, writer in self.ends:
            raw = writer.get_extra_info("socket")
            if not writer.is_closing() and raw.family != socket.AF_UNIX:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class Proxy:
    """Listens at one address and dials another for every connection."""

    def __init__(self, listen, target, seed=0):
        self.listen, self.target = listen, target
        self.there, self.back = Direction(f"{seed} there"), Direction(f"{seed} back")
        self.connections = set()
        self.accepted = 0
        self.server = None

    def direction(self, name):
        return {"there": self.there, "back": self.back}[name]

    async def start(self):
        host, port = split_address(self.listen)
        if host == "unix":
            self.server = await asyncio.start_unix_server(self.accept, port)
        else:
            self.server = await asyncio.start_server(self.accept, host, port)

    async def accept(self, reader, writer):
        self.accepted += 1
        try:
            far = await dial(self.target)
        except OSError:
            writer.transport.abort()
            return
        connection = Connection(self, (reader, writer), far)
        self.connections.add(connection)
        await asyncio.wait(connection.tasks)
        self.connections.discard(connection)

    def reset(self):
        """How many connections there were."""
        connections = list(self.connections)
        for connection in connections:
            connection.reset()
        return len(connections)

    def heal(self):
        """Back to a wire. Connections whose bytes were swallowed are reset; held bytes arrive."""
        for direction in (self.there, self.back):
            direction.delay_s, direction.bytes_per_s, direction.flips = (0.0, 0.0), 0, 0
            direction.swallows = False
            direction.open.set()
        for connection in list(self.connections):
            if connection.spoilt:
                connection.reset()


class Proxies:
    """The proxies of a run, in a thread of their own."""

    def __init__(self, seed=0):
        self.seed = seed
        self.all = {}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True, name="proxies")
        self.thread.start()

    def call(self, function, *arguments):
        """Runs the function in the proxies' thread; its result."""
        async def run():
            result = function(*arguments)
            return await result if asyncio.iscoroutine(result) else result
        return asyncio.run_coroutine_threadsafe(run(), self.loop).result()

    def add(self, name, listen, target):
        async def start():
            proxy = Proxy(listen, target, f"{self.seed} {name}")
            await proxy.start()
            return proxy
        self.all[name] = self.call(start)
        return self.all[name]

    def hold(self, names, directions=("there", "back")):
        """A partition: bytes wait, as they do in a sender's socket, and arrive after heal()."""
        self.call(lambda: [self.all[name].direction(one).open.clear() for name in names for one in directions])

    def swallow(self, names, directions=("there", "back")):
        """A half-open link: bytes vanish and nobody is told."""
        def begin():
            for name in names:
                for one in directions:
                    self.all[name].direction(one).swallows = True
        self.call(begin)

    def flip(self, name, direction, bits=1):
        def begin():
            self.all[name].direction(direction).flips += bits
        self.call(begin)

    def flipped(self, name):
        return self.all[name].there.flipped + self.all[name].back.flipped

    def delay(self, names, low_s, high_s):
        def begin():
            for name in names:
                self.all[name].there.delay_s = self.all[name].back.delay_s = (low_s, high_s)
        self.call(begin)

    def throttle(self, names, bytes_per_s):
        def begin():
            for name in names:
                self.all[name].there.bytes_per_s = self.all[name].back.bytes_per_s = bytes_per_s
        self.call(begin)

    def reset(self, names):
        return self.call(lambda: sum(self.all[name].reset() for name in names))

    def heal(self):
        self.call(lambda: [proxy.heal() for proxy in self.all.values()])

    def stop(self):
        async def close():
            for proxy in self.all.values():
                proxy.server.close()
                proxy.reset()
            # Their tasks see the end.
            while any(proxy.connections for proxy in self.all.values()):
                await asyncio.sleep(0.001)
        self.call(close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
