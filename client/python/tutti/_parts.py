"""What the blocking client and that for asyncio have in common: all but the waiting."""
import functools
import random
import time
from collections.abc import Sequence
from typing import Any

import grpc

from . import _messages, _request
from ._answer import Answer
from ._channels import Channels, maker
from ._course import Addresses, Course, Whole
from .errors import TuttiError
from .types import ApiKey, Asked, RetryPolicy, Started, Tls


class StreamParts:
    """An answer on its way, and the call that brings it."""

    def __init__(self, channels: Channels[Any], course: Course, answer: Answer) -> None:
        self._channels, self._course, self._answer = channels, course, answer
        self._call: Any = None
        self._channel: Any = None
        self._over = False

    @property
    def started(self) -> Started | None:
        """What the service said first; None before that."""
        return self._answer.started

    @property
    def resumed(self) -> int:
        """Times that the answer was gone on with after its stream had broken off."""
        return self._course.resumed

    def _begin_call(self) -> Any:
        """RuntimeError, ValueError: the client was closed."""
        self._channel = self._channels.take(self._course.address)
        generate = self._channel.unary_stream(
            _messages.GENERATE, request_serializer=_messages.GenerateRequest.SerializeToString,
            response_deserializer=_messages.GenerateResponse.FromString)
        self._call = generate(self._answer.next_request(), timeout=self._course.remaining_s(),
                              metadata=self._channels.metadata)
        return self._call


class ClientParts:
    """A Tutti service, at one address or several, and how it is asked."""

    _grpc: Any  # grpc, or grpc.aio

    def __init__(self, addresses: str | Sequence[str], *, tenant: str | bytes | None = None,
                 tls: Tls | None = None, api_key: ApiKey | None = None, resume: bool = True,
                 allow_inexact: bool = False, retry: RetryPolicy = RetryPolicy()) -> None:
        self._addresses = Addresses(addresses)
        self._tenant, self._resume, self._retry = tenant, resume, retry
        self._allow_inexact = allow_inexact
        api_key = api_key or ApiKey.of_environment()
        self._channels: Channels[Any] = Channels(
            maker(self._grpc, tls), self._addresses.metadata(api_key, encrypted=tls is not None) if api_key else ())

    def _course_of_call(self, timeout_s: float | None) -> Course:
        return Course(self._addresses, self._retry, Whole(), resume=False, timeout_s=timeout_s,
                      now=time.monotonic, draw=random.random)

    def _detokenize(self, channel: Any) -> Any:
        """The method of a channel."""
        method = channel.unary_unary(_messages.DETOKENIZE,
                                     request_serializer=_messages.DetokenizeRequest.SerializeToString,
                                     response_deserializer=_messages.DetokenizeResponse.FromString)
        return functools.partial(method, metadata=self._channels.metadata)

    def _take_channel(self, course: Course) -> Any:
        """TuttiError: the client was closed."""
        try:
            return self._channels.take(course.address)
        except RuntimeError as error:
            raise TuttiError(grpc.StatusCode.CANCELLED, f"no call: {error}") from error

    def _parts_of_stream(self, prompt: str | None, asked: Asked) -> tuple[Channels[Any], Course, Answer]:
        answer = Answer(_request.build(prompt, asked, self._tenant), allow_inexact=self._allow_inexact)
        course = Course(self._addresses, self._retry, answer, resume=self._resume,
                        timeout_s=asked.get("timeout_s"), now=time.monotonic, draw=random.random)
        return self._channels, course, answer
