"""What a caller has of an answer, and what it takes to have the rest of it."""
from typing import Any

from .errors import ProtocolError
from .types import (Chunk, Completion, Finish, FinishReason, Output, Started, Timing, Token, TopToken,
                    Usage)

_REASONS = {1: FinishReason.STOP, 2: FinishReason.LENGTH}


class Answer:
    """The caller's view decides: take() is called with what is handed on next, and with nothing else.

    Thread: one.
    """

    def __init__(self, request: Any, *, allow_inexact: bool = False) -> None:
        self._request = request
        self._allow_inexact = allow_inexact
        self._logprobs = bool(request.sampling.logprobs)
        self._ids: list[list[int]] = [[] for _ in range(request.n)]
        self._finished = [False] * len(self._ids)
        self._token = b""
        self.begun = False  # something of it was handed on
        self.started: Started | None = None

    @property
    def complete(self) -> bool:
        """Every output has come to its end."""
        return all(self._finished)

    @property
    def resumable(self) -> bool:
        """The service has said how to go on."""
        return bool(self._token)

    @property
    def count(self) -> int:
        """Tokens handed on, of all outputs."""
        return sum(map(len, self._ids))

    def next_request(self) -> Any:
        """For the next try: the first request again, or the rest of the answer."""
        if not self.begun:
            # Of a stream that brought nothing, nothing holds: another one may choose another seed.
            self._token, self.started = b"", None
            return self._request
        request = type(self._request)()
        request.CopyFrom(self._request)
        request.resume.token = self._token
        request.resume.allow_inexact = self._allow_inexact
        for ids, finished in zip(self._ids, self._finished):
            request.resume.outputs.add(ids=ids, finished=finished)
        return request

    def take(self, message: Any) -> Chunk | None:
        """The chunk to hand on; None: the message has none. ProtocolError: it does not continue what there is."""
        if message.HasField("started"):
            self._take_started(message.started)
        if not message.text and not message.tokens and not message.HasField("finish"):
            return None
        output = message.output
        if output >= len(self._ids):
            raise ProtocolError(f"the service sent output {output} where {len(self._ids)} were asked for")
        if self._finished[output]:
            raise ProtocolError(f"the service sent more of output {output} after its `finish`")
        ids = self._ids[output]
        if message.tokens and message.index != len(ids):
            raise ProtocolError(f"the service sent token {message.index} of output {output} where token "
                                f"{len(ids)} was due")
        chunk = Chunk(message.text, tuple(map(self._to_token, message.tokens)), len(ids), output,
                      _to_finish(message.finish) if message.HasField("finish") else None)
        ids.extend(token.id for token in message.tokens)
        self._finished[output] = chunk.finish is not None
        self.begun = True
        return chunk

    def check_end(self) -> None:
        """ProtocolError: the stream has ended well, and the answer is not complete."""
        if not self.complete:
            raise ProtocolError(f"the service ended the stream without `finish` of output "
                                f"{self._finished.index(False)}")

    def _take_started(self, started: Any) -> None:
        said = Started(started.seed, started.prompt_tokens, started.model_fingerprint, started.numerics_class)
        if self.begun and self.started is not None and said != self.started:
            raise ProtocolError(f"the service goes on with another answer: {said}, begun as {self.started}")
        self.started = said
        if started.resume_token:
            self._token = started.resume_token

    def _to_token(self, token: Any) -> Token:
        return Token(token.id, token.logprob if self._logprobs else None,
                     tuple(TopToken(top.id, top.token, top.logprob) for top in token.top))


class Gathering:
    """The chunks of an answer, put together."""

    def __init__(self, outputs: int) -> None:
        self._texts: list[list[str]] = [[] for _ in range(outputs)]
        self._tokens: list[list[Token]] = [[] for _ in range(outputs)]
        self._finishes: dict[int, Finish] = {}

    def add(self, chunk: Chunk) -> None:
        self._texts[chunk.output].append(chunk.text)
        self._tokens[chunk.output].extend(chunk.tokens)
        if chunk.finish is not None:
            self._finishes[chunk.output] = chunk.finish

    def completion(self, started: Started | None) -> Completion:
        return Completion(tuple(Output("".join(texts), tuple(tokens), self._finishes[number])
                                for number, (texts, tokens) in enumerate(zip(self._texts, self._tokens))),
                          started)


def _to_finish(finish: Any) -> Finish:
    usage, timing = finish.usage, finish.timing
    return Finish(_REASONS.get(finish.reason, FinishReason.UNKNOWN), finish.stop,
                  Usage(usage.prompt_tokens, usage.completion_tokens, usage.cached_prompt_tokens),
                  Timing(timing.queue_ms, timing.first_token_ms, timing.total_ms), finish.seed)
