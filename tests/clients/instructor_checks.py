"""What users of instructor do for answers that parse, against a gateway that looks for calls in Hermes' form: no answer is asked for
again. A line for each check: "ok NAME" or "FAILED NAME: why"."""
import enum
import sys
from typing import Annotated, List, Optional

import instructor
import openai
from pydantic import BaseModel, Field

from checking import check, main

ASK = {"model": "demo", "messages": [{"role": "user", "content": "What is 12 + 30?"}], "temperature": 1, "seed": 5,
       "max_tokens": 900, "max_retries": 0}


class Sign(enum.Enum):
    PLUS = "+"
    MINUS = "-"


class Operand(BaseModel):
    value: Annotated[int, Field(ge=-99, le=99)]
    name: Optional[Annotated[str, Field(max_length=5)]] = None


class Sum(BaseModel):
    """A sum."""
    sign: Sign
    operands: Annotated[List[Operand], Field(min_length=2, max_length=3)]
    exact: bool


def by(mode):
    client = openai.OpenAI(base_url=sys.argv[3], api_key="none", max_retries=0, timeout=60)
    return instructor.from_openai(client, mode=mode)


@check
def by_a_call():
    assert isinstance(by(instructor.Mode.TOOLS).chat.completions.create(**ASK, response_model=Sum), Sum)


@check
def by_a_strict_call():
    assert isinstance(by(instructor.Mode.TOOLS_STRICT).chat.completions.create(**ASK, response_model=Sum), Sum)


@check
def by_a_schema():
    assert isinstance(by(instructor.Mode.JSON_SCHEMA).chat.completions.create(**ASK, response_model=Sum), Sum)


@check
def part_by_part():
    last = None
    for last in by(instructor.Mode.TOOLS).chat.completions.create_partial(**ASK, response_model=Sum, strict=False):
        pass
    Sum.model_validate(last.model_dump())


if __name__ == "__main__":
    sys.exit(main())
