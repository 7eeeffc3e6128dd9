"""The blocking client."""
import threading
import time
import types as python_types
from collections.abc import Iterable, Iterator
from typing import Any, Unpack

import grpc

from . import _request
from ._answer import Answer, Gathering
from ._channels import Channels
from ._course import Course, Failure
from ._parts import ClientParts, StreamParts
from .errors import TuttiError
from .types import Asked, Chunk, Completion


class Stream(StreamParts, Iterator[Chunk]):
    """An answer on its way: its chunks, in order, each token once, whatever becomes of connections meanwhile.

    Ends with StopIteration when the answer is complete and with TuttiError when it will never be; what came before
    stays good. Tokens that have arrived and were not handed on do not count as the caller's.

    Thread: one; close() is for any.
    """

    def __init__(self, channels: Channels[Any], course: Course, answer: Answer) -> None:
        super().__init__(channels, course, answer)
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Chunk:
        while not self._over:
            try:
                chunk = self._step()
            except BaseException:
                self.close()
                raise
            if chunk is not None:
                return chunk
        raise StopIteration

    def close(self) -> None:
        """Cancels the call. A caller that waits for a chunk meanwhile gets TuttiError with CANCELLED."""
        self._closed.set()
        with self._lock:
            call = self._call
        if call is not None:
            call.cancel()
        self._drop(failed=False)
        self._over = True

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.__dict__.get("_over", True):
            self.close()

    def _step(self) -> Chunk | None:
        """One message, one failure that is overcome, or the end."""
        try:
            call = self._call
            message = next(self._open() if call is None else call, None)
        except grpc.RpcError as error:
            self._recover(error)
            return None
        if message is None:
            self._answer.check_end()
            self._drop(failed=False)
            self._over = True
            return None
        chunk = self._answer.take(message)
        if chunk is not None:
            self._course.progress()
        return chunk

    def _open(self) -> Any:
        with self._lock:
            if self._closed.is_set():
                raise TuttiError(grpc.StatusCode.CANCELLED, "the stream was closed")
            try:
                return self._begin_call()
            except (RuntimeError, ValueError) as error:  # closed before, or at this moment
                raise TuttiError(grpc.StatusCode.CANCELLED, f"no call: {error}") from error

    def _recover(self, error: Any) -> None:
        """Waits until the next try is due. TuttiError: there is none."""
        failure = Failure.of(error.code(), error.details(), error.trailing_metadata())
        if self._closed.is_set():
            raise TuttiError(grpc.StatusCode.CANCELLED, "the stream was closed") from None
        self._drop(failed=True)
        if self._answer.complete:  # all that was asked for is there; how the call ended is no matter
            self._over = True
        elif self._closed.wait(self._course.after(failure)):
            raise TuttiError(grpc.StatusCode.CANCELLED, "the stream was closed")

    def _drop(self, *, failed: bool) -> None:
        with self._lock:
            channel, self._channel, self._call = self._channel, None, None
        if channel is not None:
            for unused in self._channels.give(channel, failed=failed):
                unused.close()


class Client(ClientParts):
    """A Tutti service, at one address or several.

    `addresses`: host:port or unix:/path; several, as a sequence or with commas between, are one service: a
    coordinator and those that stand by, or coordinators with the same model. `tenant` is that of all requests.
    `api_key`: for a gateway that asks for one; unset: that of TUTTI_API_KEY, if there is one.
    `resume`: streams that break off after their first token are gone on with; without it they end with TuttiError.
    `allow_inexact`: also where the service computes in a numerics class that is not exact, so that the rest may be
    another; without it such streams end with FAILED_PRECONDITION. `retry`: how long a call is tried again. No connection is made before the first call.

    Thread: any, with any number of streams at once.
    """

    _grpc = grpc

    def generate(self, prompt: str | None = None, **asked: Unpack[Asked]) -> Stream:
        """An answer to exactly one of a text, token ids and a conversation. The call is made for the first chunk.

        Leaving the stream unread to its end costs the service work until it is closed: use `with`, or drop it.
        """
        return Stream(*self._parts_of_stream(prompt, asked))

    def complete(self, prompt: str | None = None, **asked: Unpack[Asked]) -> Completion:
        """generate(), waited for and put together."""
        gathering = Gathering(asked.get("n", 1))
        with self.generate(prompt, **asked) as stream:
            for chunk in stream:
                gathering.add(chunk)
            return gathering.completion(stream.started)

    def detokenize(self, ids: Iterable[int], *, skip_special_tokens: bool = True, model: str = "",
                   timeout_s: float | None = None) -> str:
        """The text of token ids. TuttiError: INVALID_ARGUMENT names the index of an id that there is not."""
        request = _request.detokenize(ids, skip_special_tokens, model)
        course = self._course_of_call(timeout_s)
        while True:
            channel, failed = self._take_channel(course), True
            try:
                response = self._detokenize(channel)(request, timeout=course.remaining_s())
                failed = False
                course.progress()
                return str(response.text)
            except grpc.RpcError as error:
                delay_s = course.after(Failure.of(error.code(), error.details(), error.trailing_metadata()))
            except (RuntimeError, ValueError) as error:  # closed at this moment
                raise TuttiError(grpc.StatusCode.CANCELLED, f"no call: {error}") from error
            finally:
                for unused in self._channels.give(channel, failed=failed):
                    unused.close()
            time.sleep(delay_s)

    def close(self) -> None:
        """Ends its streams, too."""
        for channel in self._channels.close():
            channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: python_types.TracebackType | None) -> None:
        self.close()
