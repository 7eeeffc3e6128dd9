"""What users of OpenAI's SDK do, against the gateway at the URL given. A line for each check: "ok NAME" or "FAILED NAME: why"."""
import asyncio
import contextlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import openai

from checking import check, main

URL = sys.argv[1]
CLIENT = openai.OpenAI(base_url=URL, api_key="none", max_retries=0)
ASK = {"model": "demo", "messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 0}
TEXT = {"model": "demo", "prompt": "12+30=", "temperature": 0, "max_tokens": 8, "stop": "\n"}


@contextlib.contextmanager
def door_of(events):
    """A client of a door of our own, which answers every POST with the stream events()."""

    class Door(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(events().encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
    finally:
        server.shutdown()


@check
def models():
    assert [model.id for model in CLIENT.models.list()][0] == "demo"
    assert CLIENT.models.retrieve("demo").object == "model"


@check
def chat_whole():
    answer = CLIENT.chat.completions.create(**ASK)
    assert answer.choices[0].message.content == "42", answer
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens >= 0
    assert answer._request_id


@check
def chat_streamed():
    chunks = list(CLIENT.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == "42"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0


@check
def chat_by_the_stream_helper():
    with CLIENT.chat.completions.stream(**ASK) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.content == "42"


@check
def chat_with_parts_and_a_developer():
    messages = [{"role": "developer", "content": "Answer."},
                {"role": "user", "content": [{"type": "text", "text": "What is 12 + 30?"}]}]
    answer = CLIENT.chat.completions.create(model="demo", messages=messages, max_completion_tokens=5, user="me")
    assert answer.usage.completion_tokens <= 5


@check
def chat_with_log_probabilities():
    answer = CLIENT.chat.completions.create(**ASK, logprobs=True, top_logprobs=3)
    content = answer.choices[0].logprobs.content
    # The token that ends the answer is none of its text.
    assert len(content) == answer.usage.completion_tokens - 1
    assert all(len(token.top_logprobs) == 3 and bytes(token.bytes).decode() == token.token for token in content)
    assert content[0].token == content[0].top_logprobs[0].token


@check
def several_outputs():
    answer = CLIENT.chat.completions.create(**{**ASK, "temperature": 1}, n=3, seed=5)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    again = CLIENT.chat.completions.create(**{**ASK, "temperature": 1}, n=3, seed=5)
    assert [c.message.content for c in again.choices] == [c.message.content for c in answer.choices]


@check
def completions():
    whole = CLIENT.completions.create(**TEXT)
    assert whole.choices[0].text and whole.choices[0].finish_reason in ("stop", "length"), whole
    streamed = "".join(c.choices[0].text for c in CLIENT.completions.create(**TEXT, stream=True))
    assert streamed == whole.choices[0].text
    lists = CLIENT.completions.create(**{**TEXT, "prompt": ["12+30=", "7+98="]}, logprobs=2)
    assert len(lists.choices) == 2
    assert lists.choices[0].text == whole.choices[0].text
    logprobs = lists.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset)
    echoed = CLIENT.completions.create(**TEXT, echo=True)
    assert echoed.choices[0].text == "12+30=" + whole.choices[0].text


@check
def fields_of_vllm():
    answer = CLIENT.completions.create(**{**TEXT, "stop": None}, extra_body={
        "top_k": 5, "min_p": 0.0, "repetition_penalty": 1.0, "ignore_eos": True, "stop_token_ids": []})
    assert answer.usage.completion_tokens == 8


ANSWER = {"model": "demo", "input": "What is 12 + 30?", "temperature": 0, "store": False}


@check
def responses_whole():
    answer = CLIENT.responses.create(**ANSWER, metadata={"a": "b"})
    assert answer.output_text == "42", answer
    assert answer.status == "completed" and answer.error is None and answer.metadata == {"a": "b"}
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    assert answer.usage.input_tokens_details.cached_tokens >= 0
    messages = [{"role": "developer", "content": "Answer."},
                {"role": "user", "content": [{"type": "input_text", "text": "What is 12 + 30?"}]}]
    cut = CLIENT.responses.create(model="demo", input=messages, max_output_tokens=1, temperature=0,
                                  include=["message.output_text.logprobs"], top_logprobs=2)
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens"
    assert len(cut.output[0].content[0].logprobs[0].top_logprobs) == 2
    assert CLIENT.responses.create(**{**ANSWER, "input": "What is 1 + 1?"}, instructions="Answer.").output_text


@check
def responses_streamed():
    events = list(CLIENT.responses.create(**ANSWER, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:4]] == ["response.created", "response.in_progress",
                                                    "response.output_item.added", "response.content_part.added"]
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "42"
    assert events[-1].type == "response.completed" and events[-1].response.output_text == "42"
    with CLIENT.responses.stream(**ANSWER) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "42"
    try:
        CLIENT.responses.create(**ANSWER, previous_response_id="resp_1")
    except openai.BadRequestError as refused:
        assert refused.param == "previous_response_id"
    else:
        raise AssertionError("previous_response_id was taken")


@check
def the_same_request_again():
    same = {**TEXT, "temperature": 1, "stop": None, "extra_headers": {"Idempotency-Key": "the same"}}
    assert CLIENT.completions.create(**same).model_dump() == CLIENT.completions.create(**same).model_dump()


@check
def refusals():
    for fields, error, param in [({"temperature": -1}, openai.BadRequestError, "temperature"),
                                 ({"model": "other"}, openai.NotFoundError, "model"),
                                 ({"max_completion_tokens": 9999}, openai.BadRequestError, "max_completion_tokens"),
                                 ({"response_format": {"type": "xml"}}, openai.BadRequestError, "response_format.type"),
                                 ({"messages": []}, openai.BadRequestError, "messages")]:
        try:
            CLIENT.chat.completions.create(**{**ASK, **fields})
        except error as refused:
            assert refused.param == param, refused
            assert refused.type == "invalid_request_error"
        else:
            raise AssertionError(f"{fields} was taken")


@check
def every_parameter_is_known():
    """The field tables must not drift from the SDK's: what is not served is refused as such, and nothing is unknown."""
    from openai.types import completion_create_params as text
    from openai.types.chat import completion_create_params as chat
    from openai.types.responses import response_create_params as responses
    doors = [("/chat/completions", chat.CompletionCreateParamsBase, {"messages": ASK["messages"], "max_tokens": 1}),
             ("/completions", text.CompletionCreateParamsBase, {"prompt": "a", "max_tokens": 1}),
             ("/responses", responses.ResponseCreateParamsBase, {"input": "a", "max_output_tokens": 1})]
    for path, params, body in doors:
        for name in params.__annotations__:
            for value in ("x", {"x": 1}, [1]):
                try:
                    CLIENT.post(path, body={"model": "demo", **body, name: value}, cast_to=object)
                except openai.APIStatusError as refused:
                    assert f"{name} is no field" not in refused.message, refused
                    assert refused.param and refused.param.split(".")[0].split("[")[0] in {name, *body}, (name, value, refused)


TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "strict": True, "description": "Weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
                   "additionalProperties": False}}}]


@check
def tools_of_a_model_that_calls_none():
    try:
        CLIENT.chat.completions.create(**ASK, tools=TOOLS)
    except openai.BadRequestError as refused:
        assert refused.param == "tools", refused
    else:
        raise AssertionError("tools were taken for a template that does not show them")
    answer = CLIENT.chat.completions.create(**ASK, tools=TOOLS, tool_choice="none")
    assert answer.choices[0].message.content == "42" and answer.choices[0].message.tool_calls is None


@check
def calls_by_the_stream_helper():
    """Chunks as the gateway writes them (gateway/openai/choice_text_test.cc), told by a door of our own."""
    arguments = '{"city": "Paris"}'
    deltas = [{"role": "assistant", "content": ""}, {"reasoning": "Hm."}, {"content": "I look."},
              {"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                               "function": {"name": "get_weather", "arguments": ""}}]},
              *({"tool_calls": [{"index": 0, "function": {"arguments": c}}]} for c in arguments)]

    def chunks():
        for i, delta in enumerate(deltas):
            end = "tool_calls" if i + 1 == len(deltas) else None
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": end}
            chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [choice]}
            yield f"data: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"

    with door_of(lambda: "".join(chunks())) as client:
        with client.chat.completions.stream(**ASK, tools=TOOLS) as stream:
            for _ in stream:
                pass
            choice = stream.get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content == "I look."
    call = choice.message.tool_calls[0]
    assert (call.id, call.function.name, call.function.arguments) == ("call_1", "get_weather", arguments)
    assert call.function.parsed_arguments == {"city": "Paris"}


@check
def reasoning_of_responses():
    """Events as the gateway writes them (gateway/openai/responses_test.cc), told by a door of our own."""
    thought = {"id": "rs_1", "type": "reasoning", "status": "completed", "summary": [],
               "content": [{"type": "reasoning_text", "text": "Hm."}]}
    message = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
               "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "42"}]}
    response = {"id": "resp_1", "object": "response", "created_at": 7, "status": "in_progress", "error": None,
                "incomplete_details": None, "model": "m", "output": [], "usage": None, "instructions": None, "metadata": {},
                "parallel_tool_calls": True, "temperature": None, "tool_choice": "auto", "tools": [], "top_p": None}
    usage = {"input_tokens": 3, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 6,
             "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 9}

    def item(at, one, text, kind):
        about = {"item_id": one["id"], "output_index": at, "content_index": 0}
        part = one["content"][0]
        logprobs = {"logprobs": []} if kind == "output_text" else {}
        yield "output_item.added", {"output_index": at, "item": {**one, "status": "in_progress", "content": []}}
        yield "content_part.added", {**about, "part": {**part, "text": ""}}
        for character in text:
            yield f"{kind}.delta", {**about, "delta": character, **logprobs}
        yield f"{kind}.done", {**about, "text": text, **logprobs}
        yield "content_part.done", {**about, "part": part}
        yield "output_item.done", {"output_index": at, "item": one}

    told = [("created", {"response": response}), ("in_progress", {"response": response}),
            *item(0, thought, "Hm.", "reasoning_text"), *item(1, message, "42", "output_text"),
            ("completed", {"response": {**response, "status": "completed", "output": [thought, message], "usage": usage}})]
    events = [(f"response.{kind}", {"type": f"response.{kind}", **fields, "sequence_number": number})
              for number, (kind, fields) in enumerate(told)]
    with door_of(lambda: "".join(f"event: {kind}\ndata: {json.dumps(event)}\n\n" for kind, event in events)) as client:
        with client.responses.stream(**ANSWER) as stream:
            deltas = [event.delta for event in stream if event.type == "response.reasoning_text.delta"]
            final = stream.get_final_response()
    assert "".join(deltas) == "Hm." and final.output_text == "42", final
    assert final.output[0].type == "reasoning" and final.output[0].content[0].text == "Hm."
    assert final.usage.output_tokens_details.reasoning_tokens == 4


@check
def a_stream_that_is_left():
    stream = CLIENT.completions.create(**{**TEXT, "max_tokens": 1500, "stop": None}, stream=True,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    assert CLIENT.chat.completions.create(**ASK).choices[0].message.content == "42"


@check
def many_at_once():
    async def ask():
        async with openai.AsyncOpenAI(base_url=URL, api_key="none", max_retries=0) as client:
            async def one():
                stream = await client.chat.completions.create(**ASK, stream=True)
                return "".join([c.choices[0].delta.content or "" async for c in stream])
            return await asyncio.gather(*(one() for _ in range(32)))

    assert asyncio.run(ask()) == ["42"] * 32


@check
def retries():
    """A door that says 503 as the gateway does, once, and then passes the request on."""
    asked = []

    class Door(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = b'{"object": "list", "data": []}' if len(asked) > 1 else b'{"error": {"message": "later"}}'
            self.send_response(200 if len(asked) > 1 else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Retry-After", "1")
            self.send_header("retry-after-ms", "20")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
    assert list(client.models.list()) == []
    assert len(asked) == 2
    server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
