"""The channels of a client: one for each address, made anew after a failure.

A channel whose connection was lost looks at it again only now and then; a new one connects at once.
"""
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import grpc

from .types import Tls

# As in client/limits.h: the largest answer, the first connection, and pings while nothing is heard.
_OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.keepalive_time_ms", 8000),
    ("grpc.keepalive_timeout_ms", 7000),
    # A stream that only listens sends no data, and is pinged all the same.
    ("grpc.http2.max_pings_without_data", 0),
    # A proxy of the environment would read keys and prompts that go to this machine only.
    ("grpc.enable_http_proxy", 0),
    # Tries are counted and spaced in one place, which is not gRPC.
    ("grpc.enable_retries", 0),
    # Else a new channel takes the old one's connection, and its waiting time.
    ("grpc.use_local_subchannel_pool", 1),
]

C = TypeVar("C")


def credentials(tls: Tls) -> Any:
    """OSError: a file cannot be read."""
    return grpc.ssl_channel_credentials(_read(tls.authority), _read(tls.key), _read(tls.certificate))


def _read(path: str | os.PathLike[str] | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()


def maker(library: Any, tls: Tls | None) -> Callable[[str], Any]:
    """Makes channels of grpc or of grpc.aio."""
    if tls is None:
        return lambda address: library.insecure_channel(address, options=_OPTIONS)
    credentials(tls)  # a file that is missing is said now
    return lambda address: library.secure_channel(address, credentials(tls), options=_OPTIONS)


class Channels(Generic[C]):
    """Who gives a channel back, or closes all, closes those that are returned. Thread: any."""

    def __init__(self, make: Callable[[str], C], metadata: Sequence[tuple[str, str]] = ()) -> None:
        self._make = make
        self.metadata = metadata  # of every call
        self._lock = threading.Lock()
        self._current: dict[str, C] = {}   # by address: what the next call gets
        self._alive: dict[int, C] = {}     # these, and those that calls are still under way on
        self._calls: dict[int, int] = {}
        self._closed = False

    def take(self, address: str) -> C:
        """The channel of an address, for one call. RuntimeError: the client is closed."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            if address not in self._current:
                channel = self._current[address] = self._make(address)
                self._alive[id(channel)] = channel
                self._calls[id(channel)] = 0
            channel = self._current[address]
            self._calls[id(channel)] += 1
            return channel

    def give(self, channel: C, *, failed: bool) -> Sequence[C]:
        """Back from a call. After a failure no new call gets it; other calls on it go on."""
        with self._lock:
            if id(channel) not in self._alive:
                return ()  # close() has returned it
            self._calls[id(channel)] -= 1
            if failed:
                self._current = {address: other for address, other in self._current.items()
                                 if other is not channel}
            if self._calls[id(channel)] or any(other is channel for other in self._current.values()):
                return ()
            del self._calls[id(channel)]
            return (self._alive.pop(id(channel)),)

    def close(self) -> Sequence[C]:
        """All channels; no call gets one from here on."""
        with self._lock:
            self._closed = True
            closing = list(self._alive.values())
            self._alive.clear()
            return closing
