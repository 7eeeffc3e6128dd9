"""Whether a call that failed is tried again, where, and when. Pure: time and chance come from outside."""
import dataclasses
import ipaddress
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from ._answer import Answer
from .errors import TuttiError
from .types import ApiKey, RetryPolicy

_Code = grpc.StatusCode
# Longest delay that a service may ask for, as in client/limits.h: an hour; more is a mistake of its.
DELAY_S_MAX = 3600.0
# Statuses that gRPC makes up where a stream ends without one: nobody said that the request is at fault.
_MADE_UP = ((_Code.UNKNOWN, "Stream removed"), (_Code.INTERNAL, "Received RST_STREAM"))


@dataclasses.dataclass(frozen=True)
class Failure:
    """How one try ended."""

    code: grpc.StatusCode
    details: str
    delay_s: float | None = None  # the service asks for at least so long
    final: bool = False           # it asks not to be tried again

    @classmethod
    def of(cls, code: grpc.StatusCode, details: str | None, metadata: Any) -> "Failure":
        """From what gRPC tells of a call that has ended."""
        delay_s, final = None, False
        for key, value in metadata or ():
            if key == "grpc-retry-pushback-ms":
                # As in gRPC: what is negative, or no number, forbids another try.
                pushback = _milliseconds(value)
                final = final or pushback is None
                delay_s = max(delay_s or 0.0, pushback or 0.0)
            elif key == "retry-after-ms" and (asked := _milliseconds(value)) is not None:
                delay_s = max(delay_s or 0.0, asked)
        return cls(code, details or "", delay_s, final)

    @property
    def retried(self) -> bool:
        """It may end otherwise the next time. CANCELLED is somebody else's here: our own is no failure."""
        if self.final:
            return False
        if self.code is _Code.RESOURCE_EXHAUSTED:  # without a delay it is the request that is too large
            return self.delay_s is not None
        return (self.code in (_Code.UNAVAILABLE, _Code.CANCELLED)
                or any(self.code is code and self.details.startswith(text) for code, text in _MADE_UP))


def _milliseconds(value: str | bytes) -> float | None:
    """Seconds of a whole number of milliseconds; None for what is none, negative or absurd."""
    try:
        seconds = int(value) / 1000
    except ValueError:
        return None
    return seconds if 0 <= seconds <= DELAY_S_MAX else None


def is_local(address: str) -> bool:
    """Whether what is sent there stays on this machine."""
    host = address.rpartition(":")[0]
    if address.startswith("unix:") or host in ("localhost", "[::1]"):
        return True
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False


class Addresses:
    """The addresses of a service, and which of them has answered last. Thread: any."""

    def __init__(self, addresses: str | Sequence[str]) -> None:
        given = addresses.split(",") if isinstance(addresses, str) else list(addresses)
        self.all = [address.strip() for address in given]
        self.best = 0
        for address in self.all:
            if address.startswith("unix:"):
                continue
            if "://" in address:
                raise ValueError(f"the address {address!r} begins with a scheme, and an address has none; write for "
                                 "example localhost:50051")
            _, colon, port = address.rpartition(":")
            if not (colon and port.isdigit()):
                raise ValueError(f"the address {address!r} has no port; write for example localhost:50051")
            if not 1 <= int(port[:6]) <= 65535:
                raise ValueError(f"the address {address!r} has the port {port[:20]}; ports are 1 to 65535")
        if not self.all:
            raise ValueError("no address given")

    def metadata(self, api_key: ApiKey, *, encrypted: bool) -> Sequence[tuple[str, str]]:
        """That tells a key. ValueError: it would go to another machine in the clear."""
        for address in self.all:
            if not (encrypted or api_key.in_clear or is_local(address)):
                raise ValueError(f"the API key would go to {address} in the clear; give tls, or ApiKey(…, in_clear=True)")
        return [("authorization", f"Bearer {api_key.key}")]


class Whole:
    """An answer that comes in one piece, or not at all."""

    begun = False
    resumable = False


class Course:
    """The tries of one call. Thread: one."""

    def __init__(self, addresses: Addresses, policy: RetryPolicy, answer: Answer | Whole, *, resume: bool,
                 timeout_s: float | None, now: Callable[[], float], draw: Callable[[], float]) -> None:
        self._addresses, self._policy, self._answer, self._resume = addresses, policy, answer, resume
        self._now, self._draw = now, draw  # draw: from [0, 1)
        self._deadline = None if timeout_s is None else now() + timeout_s
        self._at = addresses.best
        self._free_at = [now()] * len(addresses.all)  # when the service lets us come again
        self._failed = 0                              # tries since the last progress
        self._trouble_since: float | None = None
        self._resuming = False
        self.resumed = 0                              # times that the answer was gone on with

    @property
    def address(self) -> str:
        """Of the try that is next, or under way."""
        return self._addresses.all[self._at]

    def remaining_s(self) -> float | None:
        """Until the caller's time is over; None: it has no end."""
        return None if self._deadline is None else max(0.0, self._deadline - self._now())

    def progress(self) -> None:
        """Something was handed on."""
        self.resumed += self._resuming
        self._failed, self._trouble_since, self._resuming = 0, None, False
        self._addresses.best = self._at

    def after(self, failure: Failure) -> float:
        """Seconds to wait before the next try, which goes to `address`. TuttiError: there is none."""
        now = self._now()
        self._failed += 1
        if self._trouble_since is None:
            self._trouble_since = now
        if not failure.retried:
            raise self._error(failure, "")
        if self._answer.begun and not self._resume:
            raise self._error(failure, "; not resumed, as asked")
        if self._answer.begun and not self._answer.resumable:
            raise self._error(failure, "; the service has not said how to resume")
        # An answer that has begun goes on as soon as it can; a service that is full lets nobody in sooner.
        hurries = self._answer.begun and failure.code is not _Code.RESOURCE_EXHAUSTED
        self._free_at[self._at] = now + (0.0 if hurries else failure.delay_s or 0.0)
        delay_s = self._delay_s(now)
        lasted = now - self._trouble_since
        if self._failed > self._policy.tries or lasted + delay_s > self._policy.total_s:
            raise self._error(failure, f"; tries failed: {self._failed}, in {lasted:.1f} s")
        if self._deadline is not None and now + delay_s >= self._deadline:
            raise self._error(failure, "; the call's time ends before the next try")
        self._resuming = self._answer.begun
        return delay_s

    def _delay_s(self, now: float) -> float:
        """Goes to the address that is free first, in their order after the one that failed."""
        number = len(self._free_at)
        turns = [(self._at + 1 + step) % number for step in range(number)]
        self._at = min(turns, key=lambda at: max(now, self._free_at[at]))
        rounds = (self._failed - 1) // number
        # 2 to the 30th times any first delay is above any other bound.
        longest = min(self._policy.max_delay_s, self._policy.first_delay_s * 2.0 ** min(rounds, 30))
        return max(longest * (1 + self._draw()) / 2, self._free_at[self._at] - now)

    def _error(self, failure: Failure, why: str) -> TuttiError:
        return TuttiError(failure.code, failure.details + why, address=self.address, tries=self._failed)
