"""The request functions of `vllm bench serve`, unchanged, against the gateway at the URL given: what they send is served, and
what they measure is there. A line for each check: "ok NAME" or "FAILED NAME: why"."""
import asyncio
import os
import sys
import traceback

import aiohttp

sys.path.insert(0, sys.prefix)  # where run.py has put the one module
from endpoint_request_func import ASYNC_REQUEST_FUNCS, RequestFuncInput  # noqa: E402

URL = sys.argv[1]
PATHS = {"openai": "/completions", "vllm": "/completions", "openai-chat": "/chat/completions",
         "openai-responses": "/responses"}
PROMPT = "What is 12 + 30?"
AT_ONCE = 16


def wanted(backend, length, **fields):
    return RequestFuncInput(prompt=PROMPT, api_url=URL + PATHS[backend], prompt_len=7, output_len=length, model="demo",
                            ignore_eos=True, **fields)


async def ask(backend, length, count=1, **fields):
    async with aiohttp.ClientSession() as session:
        outputs = await asyncio.gather(*(ASYNC_REQUEST_FUNCS[backend](wanted(backend, length, **fields), session)
                                         for _ in range(count)))
    for output in outputs:
        assert output.success, output.error
    return outputs


async def measured(backend):
    """Tokens, first token and gaps are what they should be."""
    # Guessed from the answers before, tokens would come in a few chunks.
    for output in await ask(backend, 24, AT_ONCE, extra_body={"temperature": 0, "speculation": {"mode": "off"}}):
        assert output.output_tokens == 24, output
        assert output.prompt_len > 0 and output.generated_text, output
        assert 0 < output.ttft <= output.latency, output
        # A chunk may bring several tokens or none, but never all at once.
        assert len(output.itl) >= 8, output


async def of_ids(backend):
    """As `--dataset-name random` sends prompts."""
    one, = await ask(backend, 8)
    request = wanted(backend, 8)
    request.prompt = [72, 101, 108, 108, 111]
    async with aiohttp.ClientSession() as session:
        output = await ASYNC_REQUEST_FUNCS[backend](request, session)
    assert output.success and output.output_tokens == one.output_tokens == 8, output


async def with_logprobs_and_a_name(backend):
    output, = await ask(backend, 8, logprobs=1, request_id="bench-1")
    assert output.output_tokens == 8, output


async def refused(backend):
    """A refusal is one to them too."""
    request = wanted(backend, 8, extra_body={"temperature": 1001})
    async with aiohttp.ClientSession() as session:
        output = await ASYNC_REQUEST_FUNCS[backend](request, session)
    assert not output.success and "Bad Request" in output.error, output


def main():
    os.environ.pop("OPENAI_API_KEY", None)
    checks = [(measured, backend) for backend in PATHS]
    checks += [(of_ids, "openai"), (with_logprobs_and_a_name, "openai"), (refused, "openai"), (refused, "openai-chat")]
    for function, backend in checks:
        name = f"{backend}_{function.__name__}"
        try:
            asyncio.run(function(backend))
            print(f"ok {name}")
        except Exception:  # whatever it is, the others are tried too
            print(f"FAILED {name}: {traceback.format_exc(limit=2)}")


main()
