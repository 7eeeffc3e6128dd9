"""Client of a Tutti service.

    from tutti import Client

    with Client("localhost:50051") as client:
        for chunk in client.generate("12+30=", max_tokens=8):
            print(chunk.text, end="", flush=True)

A stream goes on by itself, token for token and bit for bit, when a connection or a coordinator is lost.
"""
from .aio import AsyncClient, AsyncStream
from .client import Client, Stream
from .errors import ProtocolError, TuttiError
from .types import (ApiKey, Asked, Chunk, Completion, Finish, FinishReason, Message, Output, RetryPolicy, Sampling,
                    Started, Timing, Tls, Token, ToolCall, TopToken, Usage)

__all__ = [
    "ApiKey", "Asked", "AsyncClient", "AsyncStream", "Chunk", "Client", "Completion", "Finish", "FinishReason", "Message",
    "Output", "ProtocolError", "RetryPolicy", "Sampling", "Started", "Stream", "Timing", "Tls", "Token", "ToolCall",
    "TopToken", "TuttiError", "Usage",
]
