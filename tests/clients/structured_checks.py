"""What users of OpenAI's SDK do for answers that parse, against the gateways at the URLs given: one of the demo model, and one
that looks for calls in Hermes' form. A line for each check: "ok NAME" or "FAILED NAME: why".

The demo model answers sums and nothing else: whatever it is made to say must parse all the same."""
import enum
import json
import sys
from typing import Annotated, List, Literal, Optional, Union

import openai
from pydantic import BaseModel, Field

from checking import check, main

CLIENT = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0, timeout=60)
CALLER = openai.OpenAI(base_url=sys.argv[3], api_key="none", max_retries=0, timeout=60)
ASK = {"model": "demo", "messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 1, "seed": 3,
       "max_completion_tokens": 900}

Word = Annotated[str, Field(max_length=6)]
Small = Annotated[int, Field(ge=-20, le=120)]


class Colour(enum.Enum):
    RED = "red"
    DEEP_BLUE = "deep blue"


class Point(BaseModel):
    x: Small
    y: Small


class Circle(BaseModel):
    kind: Literal["circle"]
    at: Point
    radius: Annotated[float, Field(ge=0, le=10)]


class Text(BaseModel):
    kind: Literal["text"]
    words: Annotated[List[Word], Field(max_length=3)]


class Picture(BaseModel):
    title: Word
    colour: Colour
    shape: Union[Circle, Text]
    below: Optional[Point]
    shown: bool


class Find(BaseModel):
    """Finds something."""
    word: Word
    colour: Optional[Colour]
    limit: Small


class Draw(BaseModel):
    """Draws something."""
    shape: Union[Circle, Text]


TOOLS = [openai.pydantic_function_tool(Find), openai.pydantic_function_tool(Draw)]
MODELS = {"Find": Find, "Draw": Draw}


def refused(call, param, words):
    try:
        call()
    except openai.BadRequestError as error:
        assert error.param == param, error
        assert words in error.message, error
    else:
        raise AssertionError(f"{param} was taken")


@check
def parse_of_a_nested_model():
    for seed in range(4):
        answer = CLIENT.chat.completions.parse(**{**ASK, "seed": seed}, response_format=Picture)
        assert isinstance(answer.choices[0].message.parsed, Picture), answer
        assert answer.choices[0].finish_reason == "stop"


@check
def parse_of_a_stream():
    with CLIENT.chat.completions.stream(**ASK, response_format=Picture) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion().choices[0].message
    whole = CLIENT.chat.completions.parse(**ASK, response_format=Picture).choices[0].message
    assert isinstance(streamed.parsed, Picture) and streamed.content == whole.content, (streamed, whole)


@check
def parse_of_responses():
    ask = {"model": "demo", "input": "What is 12 + 30?", "temperature": 1, "max_output_tokens": 900}
    answer = CLIENT.responses.parse(**ask, text_format=Picture)
    assert isinstance(answer.output_parsed, Picture), answer
    assert answer.text.format.type == "json_schema"
    with CLIENT.responses.stream(**ask, text_format=Picture) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_response().output_parsed, Picture)


@check
def several_outputs_and_log_probabilities():
    answer = CLIENT.chat.completions.parse(**ASK, response_format=Picture, n=3, logprobs=True, top_logprobs=2)
    for choice in answer.choices:
        assert isinstance(choice.message.parsed, Picture)
        text = b"".join(bytes(token.bytes) for token in choice.logprobs.content).decode()
        assert text == choice.message.content
        assert all(token.logprob <= 0 for token in choice.logprobs.content)


@check
def what_length_cuts_is_said():
    try:
        CLIENT.chat.completions.parse(**{**ASK, "max_completion_tokens": 4}, response_format=Picture)
    except openai.LengthFinishReasonError as cut:
        assert cut.completion.choices[0].finish_reason == "length"
    else:
        raise AssertionError("four tokens were a whole picture")


@check
def json_objects():
    answer = CLIENT.chat.completions.create(**{**ASK, "max_completion_tokens": 300}, response_format={"type": "json_object"})
    choice = answer.choices[0]
    assert choice.message.content.startswith("{"), choice
    if choice.finish_reason == "stop":
        assert isinstance(json.loads(choice.message.content), dict)


@check
def fields_of_vllm():
    def ask(**outputs):
        return CLIENT.completions.create(model="demo", prompt="12+30=", temperature=1, max_tokens=60,
                                         extra_body={"structured_outputs": outputs}).choices[0].text
    assert ask(choice=["forty-two", "no idea"]) in ("forty-two", "no idea")
    number = ask(regex="[1-9][0-9]{2}")
    assert len(number) == 3 and number.isdigit(), number
    assert ask(grammar='root ::= "a" ("b" | "c"){2} "!"') in ("abb!", "abc!", "acb!", "acc!")
    assert set(json.loads(ask(json={"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"],
                                    "additionalProperties": False}))) == {"a"}


@check
def refusals_name_the_field():
    def ask(schema):
        return lambda: CLIENT.chat.completions.create(**ASK, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    refused(ask({"properties": {"a": {"not": {}}}}), "response_format.json_schema.schema", "/properties/a/not")
    refused(ask({"type": "object", "properties": {"s": {"uniqueItems": True}}}), "response_format.json_schema.schema",
            "uniqueItems")
    refused(lambda: CLIENT.completions.create(model="demo", prompt="a", extra_body={"guided_json": {"type": "object"}}),
            "guided_json", "structured_outputs.json")
    refused(lambda: CLIENT.completions.create(model="demo", prompt="a", extra_body={"structured_outputs": {"regex": "("}}),
            "structured_outputs.regex", "")
    refused(lambda: CALLER.chat.completions.create(**ASK, tool_choice="required", tools=[
        {"type": "function", "function": {"name": "f"}},
        {"type": "function", "function": {"name": "g", "strict": True, "parameters": {
            "type": "object", "properties": {"a": {"not": {}}}}}}]), "tools[1].function.parameters", "/properties/a/not")


def called(choice):
    """The arguments of the calls of a choice, each by its model."""
    calls = choice.message.tool_calls
    assert calls, choice
    return [MODELS[call.function.name].model_validate_json(call.function.arguments) for call in calls]


@check
def a_function_is_called_by_name():
    for name in MODELS:
        answer = CALLER.chat.completions.parse(**ASK, tools=TOOLS, tool_choice={"type": "function", "function": {"name": name}})
        choice = answer.choices[0]
        assert len(called(choice)) == 1 and choice.message.tool_calls[0].function.name == name
        assert choice.finish_reason == "stop" and choice.message.content is None
        assert isinstance(choice.message.tool_calls[0].function.parsed_arguments, MODELS[name])


@check
def some_function_is_called_where_one_is_required():
    for seed in range(4):
        ask = {**ASK, "seed": seed, "tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
        choice = CALLER.chat.completions.parse(**ask).choices[0]
        assert len(called(choice)) == 1 and choice.finish_reason == "tool_calls"
        with CALLER.chat.completions.stream(**ask) as stream:
            for _ in stream:
                pass
            streamed = stream.get_final_completion().choices[0]
        assert streamed.finish_reason == "tool_calls"
        assert called(streamed) == called(choice)


@check
def strict_functions_may_be_called():
    """The model is free to say something else; what it calls is right."""
    choice = CALLER.chat.completions.parse(**ASK, tools=TOOLS).choices[0]
    assert choice.message.content == "42" or called(choice)


@check
def responses_call_functions():
    tools = [{"type": "function", "name": tool["function"]["name"], "parameters": tool["function"]["parameters"],
              "strict": True} for tool in TOOLS]
    ask = {"model": "demo", "input": "What is 12 + 30?", "temperature": 1, "max_output_tokens": 900, "tools": tools,
           "tool_choice": "required", "parallel_tool_calls": False}
    whole = CALLER.responses.create(**ask)
    calls = [item for item in whole.output if item.type == "function_call"]
    assert len(calls) == 1 and whole.status == "completed", whole
    MODELS[calls[0].name].model_validate_json(calls[0].arguments)
    events = list(CALLER.responses.create(**ask, stream=True))
    deltas = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")
    done = next(e for e in events if e.type == "response.function_call_arguments.done")
    assert deltas == done.arguments
    assert events[-1].type == "response.completed"
    # What came of the call goes back.
    again = CALLER.responses.create(**{**ask, "tool_choice": "none", "input": [
        {"role": "user", "content": "What is 12 + 30?"}, calls[0].model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": calls[0].call_id, "output": "42"}]})
    assert again.output_text is not None


if __name__ == "__main__":
    sys.exit(main())
