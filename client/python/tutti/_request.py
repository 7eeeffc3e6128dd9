"""From a caller's arguments to a request. Values are checked by the service, and only there."""
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from . import _messages
from .types import Asked, Message, Sampling

_SPECULATION = {"off": 1, "lookup": 2}  # Speculation.Mode
_OTHERS = Asked.__annotations__.keys() - Sampling.__annotations__.keys()


def build(prompt: str | None, asked: Asked, tenant: str | bytes | None = None) -> Any:
    """A GenerateRequest. ValueError: not exactly one kind of prompt, or several of grammars; TypeError: an unknown
    parameter."""
    token_ids, messages, n = asked.get("token_ids"), asked.get("messages"), asked.get("n", 1)
    if sum(given is not None for given in (prompt, token_ids, messages)) != 1:
        raise ValueError("give exactly one of prompt, token_ids and messages")
    if n < 1:
        raise ValueError(f"n is {n}, must be at least 1")
    request = _messages.GenerateRequest(model=asked.get("model", ""), n=n, priority=asked.get("priority", 0))
    # An id of its own tells the service that a repeated request is this one, should the first still be under way.
    request_id = asked.get("request_id")
    request.request_id = uuid.uuid4().hex if request_id is None else request_id
    if tenant:
        request.tenant = tenant.encode() if isinstance(tenant, str) else tenant
    salt = asked.get("cache_salt", b"")
    request.cache_salt = salt.encode() if isinstance(salt, str) else salt
    if speculation := asked.get("speculation"):
        if speculation not in _SPECULATION:
            raise ValueError(f"speculation is {speculation!r}, must be 'off' or 'lookup'")
        request.speculation.mode = _SPECULATION[speculation]
    request.truncate_prompt_tokens = asked.get("truncate_prompt_tokens", 0)
    if asked.get("split_special_tokens"):
        request.text_reading.split_special_tokens = True
    if not asked.get("add_special_tokens", True):
        request.text_reading.omit_special_tokens = True
    if asked.get("continue_final_message") and messages is None:
        raise ValueError("continue_final_message is for messages")
    if prompt is not None:
        request.text = prompt
    elif token_ids is not None:
        request.token_ids.SetInParent()
        request.token_ids.ids.extend(token_ids)
    else:
        request.chat.SetInParent()
        request.chat.template_kwargs_json = asked.get("template_kwargs_json", "")
        if asked.get("continue_final_message"):
            request.chat.continue_final_message = request.chat.omit_generation_prompt = True
        for message in messages or ():
            _add_message(request.chat, message)
    _set_grammar(request, asked)
    for name, value in asked.items():
        if name not in _OTHERS:
            _set_sampling(request.sampling, name, value)
    return request


def detokenize(ids: Iterable[int], skip_special_tokens: bool, model: str) -> Any:
    """A DetokenizeRequest."""
    return _messages.DetokenizeRequest(ids=ids, skip_special_tokens=skip_special_tokens, model=model)


def _add_message(chat: Any, message: Message | Mapping[str, str]) -> None:
    if not isinstance(message, Message):
        message = Message(**message)  # type: ignore[arg-type]
    added = chat.messages.add(role=message.role, content=message.content, tool_call_id=message.tool_call_id,
                              name=message.name, reasoning_content=message.reasoning_content,
                              metadata=message.metadata)
    for call in message.tool_calls:
        added.tool_calls.add(id=call.id, name=call.name, arguments_json=call.arguments_json)


def _set_grammar(request: Any, asked: Asked) -> None:
    given = [name for name in ("json_schema", "regex", "choice", "grammar") if asked.get(name) is not None]
    given += ["json_object"] if asked.get("json_object") else []
    if len(given) > 1:
        raise ValueError(f"give at most one of {', '.join(given)}")
    if not given:
        if asked.get("json_blanks"):
            raise ValueError("json_blanks is for json_schema and json_object")
        return
    grammar, value = request.grammar, asked.get(given[0])
    if given[0] == "json_object":
        grammar.json_object.SetInParent()
    elif given[0] == "choice":
        grammar.choice.texts.extend([value] if isinstance(value, str) else value)
    elif given[0] == "json_schema":
        grammar.json_schema = value if isinstance(value, str) else json.dumps(value)
    else:
        setattr(grammar, {"grammar": "ebnf"}.get(given[0], given[0]), value)
    if asked.get("json_blanks"):
        grammar.whitespace = 2  # GRAMMAR_WHITESPACE_BOUNDED


def _set_sampling(params: Any, name: str, value: Any) -> None:
    if name not in Sampling.__annotations__:
        raise TypeError(f"unknown parameter {name!r}; known are {', '.join(Asked.__annotations__)}")
    if value is None:
        return
    if name == "logit_bias":
        params.logit_bias.update(value)
    elif name in ("stop", "stop_token_ids", "bad_words", "allowed_token_ids"):
        # A text is a sequence of texts, too, and never meant as one.
        getattr(params, name).extend([value] if isinstance(value, str) else value)
    else:
        setattr(params, name, value)
