"""What users of LangChain do for answers that parse, against a gateway that looks for calls in Hermes' form. A line for each check:
"ok NAME" or "FAILED NAME: why"."""
import sys
from typing import Annotated, List, Literal, Optional

from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

from checking import check, main

MODEL = ChatOpenAI(base_url=sys.argv[3], api_key="none", model="demo", temperature=1, max_retries=0, timeout=60, max_tokens=900)
ASK = "What is 12 + 30?"


class Step(BaseModel):
    """A step of a plan."""
    kind: Literal["add", "carry over"]
    operands: Annotated[List[Annotated[int, Field(ge=0, le=99)]], Field(max_length=3)]


class Plan(BaseModel):
    """A plan for a sum."""
    name: Annotated[str, Field(max_length=8)]
    first: Step
    then: Optional[Step]


@check
def structured_output_by_schema():
    assert isinstance(MODEL.with_structured_output(Plan, method="json_schema").invoke(ASK), Plan)


@check
def structured_output_by_a_call():
    for strict in (None, True):
        assert isinstance(MODEL.with_structured_output(Plan, method="function_calling", strict=strict).invoke(ASK), Plan)


@check
def structured_output_with_what_was_said():
    said = MODEL.with_structured_output(Plan, method="json_schema", include_raw=True).invoke(ASK)
    assert said["parsing_error"] is None and isinstance(said["parsed"], Plan), said


@check
def bound_tools():
    for choice in ("any", "Step", "required"):
        answer = MODEL.bind_tools([Plan, Step], tool_choice=choice, parallel_tool_calls=False).invoke(ASK)
        assert len(answer.tool_calls) == 1 and not answer.invalid_tool_calls, answer
        call = answer.tool_calls[0]
        {"Plan": Plan, "Step": Step}[call["name"]].model_validate(call["args"])
        assert choice != "Step" or call["name"] == "Step"


@check
def streamed_calls():
    joined = None
    for chunk in MODEL.bind_tools([Plan], tool_choice="Plan").stream(ASK):
        joined = chunk if joined is None else joined + chunk
    Plan.model_validate(joined.tool_calls[0]["args"])


if __name__ == "__main__":
    sys.exit(main())
