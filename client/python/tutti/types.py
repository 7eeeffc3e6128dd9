"""What goes into a call and what comes out of it."""
import dataclasses
import enum
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True, slots=True)
class TopToken:
    """One of the most likely tokens at a position."""

    id: int
    token: bytes    # its own bytes, which may be part of a character
    logprob: float


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A generated token."""

    id: int
    logprob: float | None            # None unless `logprobs` was asked for
    top: tuple[TopToken, ...] = ()   # as many as `top_logprobs`, the most likely first


class FinishReason(enum.Enum):
    """Why an output ended."""

    STOP = "stop"        # end-of-sequence token, stop token or stop string
    LENGTH = "length"    # max_tokens or the end of the context
    UNKNOWN = "unknown"  # told by a service that is newer than this client


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one output. The prompt counts for output 0 only."""

    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Times of one output as the service measured them; of the last call, where several made the stream."""

    queue_ms: float
    first_token_ms: float
    total_ms: float


@dataclasses.dataclass(frozen=True, slots=True)
class Finish:
    """The end of one output."""

    reason: FinishReason
    stop: str    # the stop string that matched, or ""
    usage: Usage
    timing: Timing
    seed: int    # gives this output again in a request with n = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Started:
    """What the first message of a stream says of all of it."""

    seed: int    # of output 0, given or chosen
    prompt_tokens: int
    model_fingerprint: str
    numerics_class: str


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one output."""

    text: str                  # certain: never ends with a part of a character or of a stop string
    tokens: tuple[Token, ...]
    index: int                 # position of the first of `tokens` in its output
    output: int                # among the request's `n`, from 0
    finish: Finish | None      # in the last chunk of each output


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """One output, whole."""

    text: str
    tokens: tuple[Token, ...]
    finish: Finish


@dataclasses.dataclass(frozen=True, slots=True)
class Completion:
    """An answer, whole."""

    outputs: tuple[Output, ...]
    started: Started | None    # None: the service is older than this message

    @property
    def text(self) -> str:
        """Of output 0."""
        return self.outputs[0].text


@dataclasses.dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a function by the assistant."""

    name: str
    arguments_json: str = ""
    id: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation."""

    role: str
    content: str = ""
    tool_calls: Sequence[ToolCall] = ()
    tool_call_id: str = ""
    name: str = ""
    reasoning_content: str = ""
    metadata: str = ""


class Sampling(TypedDict, total=False):
    """How tokens are chosen and where an output ends; what is left out is the service's default. The meaning and the
    range of each are in proto/tutti/v1/generation.proto, `SamplingParams`, and are checked by the service alone."""

    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    seed: int
    stop: Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    include_stop_str_in_output: bool
    skip_special_tokens: bool
    logprobs: bool
    top_logprobs: int
    min_tokens: int
    bad_words: Sequence[str]
    allowed_token_ids: Sequence[int]


class Asked(Sampling, total=False):
    """What a request says beside its text: instead of a text `token_ids` or `messages`, and how it is treated."""

    token_ids: Sequence[int]
    messages: Sequence[Message | Mapping[str, str]]
    template_kwargs_json: str    # for the chat template, with `messages`
    continue_final_message: bool  # the answer goes on with the last of `messages`
    split_special_tokens: bool   # special tokens that the prompt spells stay text
    add_special_tokens: bool     # put before the prompt what the model's authors put before every one; True by default
    # What the text of the answer is; at most one of these (proto/tutti/v1/grammar.proto).
    json_schema: str | Mapping[str, Any]
    json_object: bool
    regex: str
    choice: Sequence[str]
    grammar: str                 # rules of a context-free grammar (EBNF)
    json_blanks: bool            # of the first two: blanks may stand between the parts
    truncate_prompt_tokens: int  # only so many of the prompt's last tokens are the prompt
    cache_salt: str | bytes      # cached prompts are found by requests with the same salt only
    speculation: Literal["off", "lookup"]  # whether next tokens are guessed: the answer is the same
    n: int                       # outputs, 1 by default
    model: str                   # refused if it is not the one that is served
    priority: int                # lower goes first
    request_id: str | None       # what a service knows a repeated request by: two streams may not share it;
                                 # one of its own by default
    timeout_s: float | None      # of the whole answer, all tries included


@dataclasses.dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of an encrypted connection; they are read anew for every connection."""

    authority: Path                  # the service must carry a certificate of its
    certificate: Path | None = None  # with `key`: who we are
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("Tls: certificate and key go together")


_KEY_FILE_BYTES_MAX = 2048  # as in client/command.cc


@dataclasses.dataclass(frozen=True, slots=True)
class ApiKey:
    """The key that a gateway asks for. It is told with every call, and shown by no repr()."""

    key: str = dataclasses.field(repr=False)
    in_clear: bool = False  # without TLS to other machines, too

    def __post_init__(self) -> None:
        if not self.key or not all("!" <= letter <= "~" for letter in self.key):
            raise ValueError("ApiKey: a key is printable ASCII without blanks, and not empty")

    @classmethod
    def read(cls, path: Path, *, in_clear: bool = False) -> "ApiKey":
        """The key of a file. OSError: it cannot be read. ValueError: it holds none."""
        with open(path, "rb") as file:
            text = file.read(_KEY_FILE_BYTES_MAX + 1)
        if len(text) > _KEY_FILE_BYTES_MAX:
            raise ValueError(f"ApiKey: {path} is longer than {_KEY_FILE_BYTES_MAX} bytes")
        # Every byte is a letter of this encoding, so that no error shows the file.
        return cls(text.decode("latin-1").strip(), in_clear)

    @classmethod
    def of_environment(cls) -> "ApiKey | None":
        """That of TUTTI_API_KEY; None: it is unset or empty."""
        key = os.environ.get("TUTTI_API_KEY")
        return cls(key) if key else None


@dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a call is tried again. Every token that is handed on begins the count anew.

    The n-th delay on the same address is drawn from the upper half of first_delay_s × 2ⁿ, at most max_delay_s: a
    coordinator that comes back is found within a second, and a thousand clients do not come at once. The service's own
    delay (`retry-after-ms`, `grpc-retry-pushback-ms`) holds for the address that asked for it; not for an answer that
    has begun, which goes on as soon as it can, unless the service is full.
    """

    tries: int = 100           # after the first; 0: none
    total_s: float = 60.0      # from the first failure; as long as a service waits for a pipeline by default
    first_delay_s: float = 0.05
    max_delay_s: float = 1.0

    def __post_init__(self) -> None:
        if self.tries < 0 or self.total_s < 0 or not 0 < self.first_delay_s <= self.max_delay_s:
            raise ValueError(f"{self}: tries and total_s are at least 0, 0 < first_delay_s <= max_delay_s")
