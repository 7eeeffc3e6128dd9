"""For pytest: vLLM's tests of what it serves meet the gateway of TUTTI_URL instead of a server that they start."""
import json
import os
import re
import urllib.request

import anthropic
import openai
import pytest

import stand_ins
from requests_watch import watch

watch()
ROOT = os.environ["TUTTI_URL"].removesuffix("/v1")


def post(path, **fields):
    request = urllib.request.Request(f"{ROOT}{path}", json.dumps(fields).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


class RemoteOpenAIServer:
    DUMMY_API_KEY = "none"
    uds = None
    url_root = ROOT

    def __init__(self, model, *_, **__):
        self.model = model
        self.host, port = ROOT.split("//")[1].rsplit(":", 1)
        self.port = int(port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def url_for(self, *parts):
        return "/".join([ROOT, *parts])

    def get_client(self, **settings):
        return openai.OpenAI(base_url=f"{ROOT}/v1", api_key="none", max_retries=0, **settings)

    def get_async_client(self, **settings):
        return openai.AsyncOpenAI(base_url=f"{ROOT}/v1", api_key="none", max_retries=0, **settings)

    def get_async_client_anthropic(self, **settings):
        return anthropic.AsyncAnthropic(base_url=ROOT, api_key="none", max_retries=0, **settings)


class Ids:
    def __init__(self, input_ids):
        self.input_ids = input_ids


class Tokenizer:
    """Of the model that is served."""

    def __init__(self, *_, **__):
        pass

    @classmethod
    def from_pretrained(cls, *_, **__):
        return cls()

    def encode(self, text, add_special_tokens=True, **_):
        return post("/tokenize", prompt=text, add_special_tokens=add_special_tokens)["tokens"]

    def __call__(self, text, **settings):
        return Ids(input_ids=self.encode(text, **settings))

    @property
    def eos_token_id(self):
        return self.encode("<|im_end|>", add_special_tokens=False)[0]

    extra_special_tokens_ids = ()

    def decode(self, ids, skip_special_tokens=False, **_):
        text = post("/detokenize", tokens=[ids] if isinstance(ids, int) else list(ids))["prompt"]
        return re.sub(r"<\|\w+\|>", "", text) if skip_special_tokens else text

    def convert_tokens_to_ids(self, tokens):
        return [self.encode(token, add_special_tokens=False)[0] for token in tokens]

    def apply_chat_template(self, conversation, tokenize=True, return_dict=False, **settings):
        known = {name: settings.pop(name) for name in ("add_generation_prompt", "continue_final_message", "tools") if settings.get(name)}
        ids = post("/tokenize", messages=conversation, chat_template_kwargs=settings, **known)["tokens"]
        return self.decode(ids) if not tokenize else Ids(ids) if return_dict else ids


class Hub:
    """What tests fetch for a server that is not started."""

    def __init__(self, *_, **__):
        pass

    def snapshot_download(self, *_, **__):
        return "nowhere"


stand_ins.NAMES.update({"hf_api": Hub, "download_weights_from_hf": lambda *_, **__: "nowhere", "RemoteOpenAIServer": RemoteOpenAIServer, "get_tokenizer": Tokenizer, "AutoTokenizer": Tokenizer})


@pytest.fixture(scope="session")
def qwen3_lora_files():
    return "nowhere"
