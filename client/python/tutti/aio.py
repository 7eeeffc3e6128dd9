"""The client for asyncio: the same as in client.py, where the difference is `await`."""
import asyncio
import functools
import weakref
from collections.abc import AsyncIterator, Iterable
from typing import Any, Unpack

import grpc
import grpc.aio

from . import _request
from ._answer import Answer, Gathering
from ._channels import Channels
from ._course import Course, Failure
from ._parts import ClientParts, StreamParts
from .errors import TuttiError
from .types import Asked, Chunk, Completion

_EOF: Any = getattr(grpc.aio, "EOF")  # stubs of gRPC leave it out


class AsyncStream(StreamParts, AsyncIterator[Chunk]):
    """An answer on its way, as Stream of client.py. Cancelling the task that waits for a chunk ends the stream.

    Thread: that of the event loop; one task.
    """

    def __init__(self, channels: Channels[Any], course: Course, answer: Answer) -> None:
        super().__init__(channels, course, answer)
        self._closed = asyncio.Event()

    def __aiter__(self) -> "AsyncStream":
        return self

    async def __anext__(self) -> Chunk:
        while not self._over:
            try:
                chunk = await self._step()
            except BaseException:
                await self.aclose()
                raise
            if chunk is not None:
                return chunk
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancels the call. A task that waits for a chunk meanwhile gets TuttiError with CANCELLED."""
        self.cancel()
        self._over = True
        await self._drop(failed=False)

    def cancel(self) -> None:
        """The next chunk that is asked for, or waited for, is TuttiError with CANCELLED."""
        self._closed.set()
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> "AsyncStream":
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def _step(self) -> Chunk | None:
        """One message, one failure that is overcome, or the end."""
        try:
            if self._call is None:
                self._open()
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            await self._recover(Failure.of(error.code(), error.details(), error.trailing_metadata()))
            return None
        except asyncio.CancelledError:
            # grpc.aio says so, too, when the service or something before it has cancelled the call.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            await self._recover(Failure(grpc.StatusCode.CANCELLED, "the stream was reset"))
            return None
        if message is _EOF:
            self._answer.check_end()
            await self._drop(failed=False)
            self._over = True
            return None
        chunk = self._answer.take(message)
        if chunk is not None:
            self._course.progress()
        return chunk

    def _open(self) -> None:
        if self._closed.is_set():
            raise TuttiError(grpc.StatusCode.CANCELLED, "the stream was closed")
        try:
            self._begin_call()
        except RuntimeError as error:
            raise TuttiError(grpc.StatusCode.CANCELLED, f"no call: {error}") from error

    async def _recover(self, failure: Failure) -> None:
        """Waits until the next try is due. TuttiError: there is none."""
        if self._closed.is_set():
            raise TuttiError(grpc.StatusCode.CANCELLED, "the stream was closed") from None
        await self._drop(failed=True)
        if self._answer.complete:  # all that was asked for is there; how the call ended is no matter
            self._over = True
            return
        delay_s = self._course.after(failure)
        try:
            await asyncio.wait_for(self._closed.wait(), delay_s)
        except TimeoutError:
            return
        raise TuttiError(grpc.StatusCode.CANCELLED, "the stream was closed")

    async def _drop(self, *, failed: bool) -> None:
        channel, self._channel, self._call = self._channel, None, None
        if channel is not None:
            for unused in self._channels.give(channel, failed=failed):
                await unused.close()


class AsyncClient(ClientParts):
    """A Tutti service, at one address or several: the arguments are those of Client in client.py.

    Thread: that of the event loop in which its first call is made.
    """

    _grpc = grpc.aio

    @functools.cached_property
    def _streams(self) -> weakref.WeakSet[AsyncStream]:
        """Closing a channel of grpc.aio cancels only those calls that a task waits for: these are all."""
        return weakref.WeakSet()

    def generate(self, prompt: str | None = None, **asked: Unpack[Asked]) -> AsyncStream:
        """An answer, as Client.generate gives it."""
        stream = AsyncStream(*self._parts_of_stream(prompt, asked))
        self._streams.add(stream)
        return stream

    async def complete(self, prompt: str | None = None, **asked: Unpack[Asked]) -> Completion:
        """generate(), waited for and put together."""
        gathering = Gathering(asked.get("n", 1))
        async with self.generate(prompt, **asked) as stream:
            async for chunk in stream:
                gathering.add(chunk)
            return gathering.completion(stream.started)

    async def detokenize(self, ids: Iterable[int], *, skip_special_tokens: bool = True, model: str = "",
                         timeout_s: float | None = None) -> str:
        """The text of token ids, as Client.detokenize gives it."""
        request = _request.detokenize(ids, skip_special_tokens, model)
        course = self._course_of_call(timeout_s)
        while True:
            channel, failed = self._take_channel(course), True
            try:
                response = await self._detokenize(channel)(request, timeout=course.remaining_s())
                failed = False
                course.progress()
                return str(response.text)
            except grpc.RpcError as error:
                delay_s = course.after(Failure.of(error.code(), error.details(), error.trailing_metadata()))
            except RuntimeError as error:  # closed at this moment
                raise TuttiError(grpc.StatusCode.CANCELLED, f"no call: {error}") from error
            finally:
                for unused in self._channels.give(channel, failed=failed):
                    await unused.close()
            await asyncio.sleep(delay_s)

    async def close(self) -> None:
        """Ends its streams, too."""
        for stream in list(self._streams):
            stream.cancel()
        for channel in self._channels.close():
            await channel.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()
