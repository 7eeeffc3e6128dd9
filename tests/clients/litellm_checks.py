"""What users of litellm do, against a gateway that looks for calls in Hermes' form: as OpenAI's, vLLM's and Anthropic's service, and over
its bridge from Anthropic's messages. A line for each check: "ok NAME" or "FAILED NAME: why"."""
import asyncio
import json
import sys

import litellm

from checking import check, main

URL = sys.argv[3]
ASK = {"messages": [{"role": "user", "content": "What is 12 + 30?"}], "api_key": "none", "temperature": 0, "max_retries": 0}
CHATS = [("openai/demo", URL), ("hosted_vllm/demo", URL), ("anthropic/demo", URL.removesuffix("/v1"))]
TOOLS = [{"type": "function", "function": {"name": "add", "description": "The sum", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["a", "b"]}}}]
FORM = {"type": "json_schema", "json_schema": {"name": "sum", "strict": True, "schema": {
    "type": "object", "properties": {"sum": {"type": "integer", "minimum": 0, "maximum": 999}}, "required": ["sum"], "additionalProperties": False}}}


@check
def whole():
    for model, base in CHATS:
        answer = litellm.completion(model=model, api_base=base, max_tokens=16, **ASK)
        assert answer.choices[0].message.content == "42" and answer.choices[0].finish_reason == "stop", (model, answer)
        assert answer.usage.prompt_tokens > 5 and answer.usage.completion_tokens > 0, (model, answer)


@check
def streamed():
    for model, base in CHATS:
        chunks = list(litellm.completion(model=model, api_base=base, max_tokens=16, stream=True,
                                         stream_options={"include_usage": True}, **ASK))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "42", (model, chunks)
        assert any(getattr(chunk, "usage", None) for chunk in chunks), (model, chunks)


@check
def asynchronous():
    async def all_of_them():
        return await asyncio.gather(*(litellm.acompletion(model=model, api_base=base, max_tokens=16, **ASK) for model, base in CHATS * 4))
    assert {answer.choices[0].message.content for answer in asyncio.run(all_of_them())} == {"42"}


@check
def texts():
    fields = {"prompt": "12+30=", "api_base": URL, "api_key": "none", "temperature": 0, "max_tokens": 8, "stop": "\n"}
    answer = litellm.text_completion(model="text-completion-openai/demo", logprobs=2, **fields)
    streamed_text = "".join(chunk.choices[0].text or "" for chunk in
                            litellm.text_completion(model="text-completion-openai/demo", stream=True, **fields))
    assert answer.choices[0].text == streamed_text and answer.choices[0].text, (answer, streamed_text)
    assert len(answer.choices[0].logprobs.tokens) == answer.usage.completion_tokens, answer


@check
def calls():
    for model, base in CHATS[:2]:
        answer = litellm.completion(model=model, api_base=base, tools=TOOLS, tool_choice="required", parallel_tool_calls=False,
                                    max_tokens=200, **ASK)
        call, = answer.choices[0].message.tool_calls
        assert call.function.name == "add" and set(json.loads(call.function.arguments)) == {"a", "b"}, (model, answer)


@check
def answers_that_parse():
    for model, base in CHATS[:2]:
        answer = litellm.completion(model=model, api_base=base, response_format=FORM, max_tokens=100, **ASK)
        assert set(json.loads(answer.choices[0].message.content)) == {"sum"}, (model, answer)


@check
def responses():
    fields = {"model": "openai/demo", "input": "What is 12 + 30?", "api_base": URL, "api_key": "none", "temperature": 0}
    answer = litellm.responses(**fields)
    assert answer.output[0].content[0].text == "42", answer
    kinds = [event.type for event in litellm.responses(**fields, stream=True)]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds


@check
def bridge_from_messages():
    """Anthropic's messages in, whatever litellm makes of them to an OpenAI service."""
    def ask(**fields):
        return asyncio.run(litellm.anthropic.messages.acreate(model="openai/demo", max_tokens=200, api_base=URL, **{**ASK, **fields}))

    answer = ask(system="Answer.", metadata={"user_id": "u"}, top_p=1)
    assert answer["content"][0]["text"] and answer["stop_reason"] in ("end_turn", "max_tokens"), answer
    assert ask()["content"][0]["text"] == "42"
    tool = {"name": "add", "description": "The sum", "input_schema": TOOLS[0]["function"]["parameters"]}
    called = ask(tools=[tool], tool_choice={"type": "tool", "name": "add"})
    block, = [block for block in called["content"] if block["type"] == "tool_use"]
    # The bridge says that the call need not be by its schema, and this model's is not.
    assert block["name"] == "add" and called["stop_reason"] in ("tool_use", "max_tokens"), called
    history = [*ASK["messages"], {"role": "assistant", "content": [block]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"], "content": "42"}]}]
    assert ask(messages=history)["role"] == "assistant"


@check
def refusals():
    for fields, error in [({"model": "openai/other"}, litellm.NotFoundError), ({"model": "openai/demo", "temperature": -3}, litellm.BadRequestError)]:
        try:
            litellm.completion(api_base=URL, **{**ASK, **fields})
        except error:
            continue
        raise AssertionError(f"{fields} was taken")


if __name__ == "__main__":
    sys.exit(main())
