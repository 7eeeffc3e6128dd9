"""A client that speaks HTTP/2 by hand, so that it can do what no client library does: stop in the middle of a message, or
never read."""
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header without indexing and without Huffman coding."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def varint(value):
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def field(number, payload):
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


class Connection:
    """One connection to "host:port". Reads while it writes; answers settings and pings unless told not to."""

    def __init__(self, address, window=65535, gives_credit=False):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.next_stream = 1
        self.window = 65535        # of the connection, for what we send
        self.initial = 65535       # of a new stream
        self.windows = {}
        self.frame_max = 16384
        self.ended = {}            # stream: the trailers' bytes, or "reset"
        self.data = {}             # stream: bytes of messages received
        self.closed = False
        self.answers_pings = True
        self.gives_credit = gives_credit  # for what it has received; else the peer may send 65,535 bytes in all
        self.buffer = b""
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window)))

    def open(self, method):
        """The headers of a call, without its message; the stream's number."""
        stream = self.next_stream
        self.next_stream += 2
        headers = b"\x83\x86" + b"".join(literal(*pair) for pair in (
            (b":path", method.encode()), (b":authority", b"localhost"), (b"te", b"trailers"),
            (b"content-type", b"application/grpc")))
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, headers))
        self.windows[stream] = self.initial
        self.data[stream] = 0
        return stream

    def send(self, stream, payload, end=False):
        """As much of the bytes as the peer's windows let through; False when the stream ended first."""
        at = 0
        while at < len(payload) or end:
            self.poll(0)
            if self.closed or stream in self.ended:
                return False
            room = min(self.window, self.windows[stream], self.frame_max, len(payload) - at)
            if room <= 0 and at < len(payload):
                self.poll(1)
                continue
            last = end and at + room == len(payload)
            self.socket.sendall(frame(DATA, END_STREAM if last else 0, stream, payload[at:at + room]))
            self.window -= room
            self.windows[stream] -= room
            at += room
            if last:
                break
        return True

    def call(self, method, message):
        """Sends a whole request; the stream's number."""
        stream = self.open(method)
        self.send(stream, b"\0" + struct.pack(">I", len(message)) + message, end=True)
        return stream

    def poll(self, timeout):
        """Handles what has come; waits for something for at most so long."""
        self.socket.settimeout(timeout or 0.000001)
        try:
            received = self.socket.recv(1 << 20)
            self.closed = self.closed or not received
            self.buffer += received
        except (TimeoutError, BlockingIOError):
            pass
        except ConnectionError:
            self.closed = True
        finally:
            self.socket.settimeout(60)
        while len(self.buffer) >= 9:
            length = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + length:
                break
            kind, flags = self.buffer[3], self.buffer[4]
            stream = int.from_bytes(self.buffer[5:9], "big") & 0x7fffffff
            payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
            self.handle(kind, flags, stream, payload)

    def handle(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at:at + 6])
                if name == 4:
                    for number in self.windows:
                        self.windows[number] += value - self.initial
                    self.initial = value
            self.socket.sendall(frame(SETTINGS, ACK, 0))
        elif kind == WINDOW_UPDATE:
            value = struct.unpack(">I", payload)[0]
            if stream == 0:
                self.window += value
            elif stream in self.windows:
                self.windows[stream] += value
        elif kind == PING and not flags & ACK and self.answers_pings:
            self.socket.sendall(frame(PING, ACK, 0, payload))
        elif kind == DATA:
            self.data[stream] = self.data.get(stream, 0) + len(payload)
            if self.gives_credit and payload:
                credit = struct.pack(">I", len(payload))
                self.socket.sendall(frame(WINDOW_UPDATE, 0, 0, credit) + frame(WINDOW_UPDATE, 0, stream, credit))
        elif kind == HEADERS and flags & END_STREAM:
            self.ended[stream] = payload
        elif kind == RST_STREAM:
            self.ended.setdefault(stream, "reset")
        elif kind == GOAWAY:
            self.closed = True

    def wait_end(self, stream, timeout=60):
        """Waits for the end of a stream; its trailers' bytes, "reset" or "closed"; None when it does not come."""
        deadline = time.monotonic() + timeout
        while stream not in self.ended and not self.closed and time.monotonic() < deadline:
            self.poll(0.05)
        return self.ended.get(stream, "closed" if self.closed else None)

    def close(self):
        self.socket.close()
