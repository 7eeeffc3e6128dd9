"""What users of Anthropic's SDK do, against the gateway at the URL given. A line for each check: "ok NAME" or "FAILED NAME: why"."""
import sys

import anthropic

from checking import check, main

# The SDK puts /v1 there by itself.
URL = sys.argv[1].removesuffix("/v1")
CLIENT = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
ASK = {"model": "demo", "messages": [{"role": "user", "content": "What is 12 + 30?"}], "max_tokens": 16}
# It has no field for it any more.
GREEDY = {"extra_body": {"temperature": 0}}
TOOLS = [{"name": "get_weather", "description": "Weather of a city",
          "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]


@check
def whole():
    answer = CLIENT.messages.create(**ASK, **GREEDY)
    assert [block.type for block in answer.content] == ["text"], answer
    assert answer.content[0].text == "42" and answer.stop_reason == "end_turn" and answer.role == "assistant"
    assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 5 and answer.usage.output_tokens > 0
    assert answer.id.startswith("msg_") and answer.model == "demo"


@check
def streamed():
    with CLIENT.messages.stream(**ASK, **GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == "42" == final.content[0].text, final
    assert final.stop_reason == "end_turn" and final.usage.output_tokens > 0
    kinds = [event.type for event in CLIENT.messages.create(**ASK, **GREEDY, stream=True)]
    assert kinds[0] == "message_start" and kinds[1] == "content_block_start", kinds
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"], kinds


@check
def system_and_blocks():
    answer = CLIENT.messages.create(
        model="demo", max_tokens=4, system=[{"type": "text", "text": "Answer.", "cache_control": {"type": "ephemeral"}}],
        messages=[{"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": "1 + 1?"}]},
                  {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": ""},
                                                    {"type": "text", "text": "2"}]},
                  {"role": "user", "content": "And 2 + 2?"}], metadata={"user_id": "u"})
    assert answer.usage.output_tokens <= 4


@check
def ends():
    cut = CLIENT.messages.create(**{**ASK, "max_tokens": 1}, **GREEDY)
    assert cut.stop_reason == "max_tokens" and cut.usage.output_tokens == 1, cut
    stopped = CLIENT.messages.create(**ASK, **GREEDY, stop_sequences=["2"])
    assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == "2", stopped
    assert stopped.content[0].text == "4", stopped


@check
def a_beginning_of_the_answer():
    answer = CLIENT.messages.create(**{**ASK, "messages": [*ASK["messages"], {"role": "assistant", "content": "4"}]}, **GREEDY)
    assert answer.content[0].text == "2", answer


@check
def count_tokens():
    count = CLIENT.messages.count_tokens(model="demo", messages=ASK["messages"])
    answer = CLIENT.messages.create(**ASK)
    assert count.input_tokens == answer.usage.input_tokens + answer.usage.cache_read_input_tokens, (count, answer.usage)
    more = CLIENT.messages.count_tokens(model="demo", messages=ASK["messages"], system="Be brief")
    assert more.input_tokens > count.input_tokens


@check
def refusals():
    for fields, error, words in [({"model": "other"}, anthropic.NotFoundError, "model"),
                                 ({"max_tokens": 9999}, anthropic.BadRequestError, "max_tokens"),
                                 ({"tools": TOOLS}, anthropic.BadRequestError, "tools"),
                                 ({"tool_choice": {"type": "any"}}, anthropic.BadRequestError, "tool_choice"),
                                 ({"messages": []}, anthropic.BadRequestError, "messages"),
                                 ({"extra_body": {"temperature": -1}}, anthropic.BadRequestError, "temperature"),
                                 ({"extra_body": {"nonsense": 1}}, anthropic.BadRequestError, "nonsense")]:
        try:
            CLIENT.messages.create(**{**ASK, **fields})
        except error as refused:
            assert refused.body["type"] == "error" and words in refused.body["error"]["message"], refused.body
            assert refused.body["error"]["type"] in ("invalid_request_error", "not_found_error"), refused.body
        else:
            raise AssertionError(f"{fields} was taken")
    answer = CLIENT.messages.create(**ASK, **GREEDY, tools=TOOLS, tool_choice={"type": "none"})
    assert answer.content[0].text == "42", answer


@check
def every_parameter_is_known():
    from anthropic.types import message_count_tokens_params, message_create_params
    for of_count, params in [(False, message_create_params.MessageCreateParamsBase),
                             (True, message_count_tokens_params.MessageCountTokensParams)]:
        for name in params.__annotations__:
            fields = {"model": "demo", "messages": ASK["messages"], **({} if of_count else {"max_tokens": 1}), name: [{"x": 1}]}
            try:
                CLIENT.post("/v1/messages/count_tokens" if of_count else "/v1/messages", body=fields, cast_to=object)
            except anthropic.APIStatusError as refused:
                assert "is no field that this service knows" not in str(refused.body) or f"{name} is no" not in str(refused.body), (
                    name, refused.body)


if __name__ == "__main__":
    sys.exit(main())
