"""Prompts of conversations as other code writes them, and the conversations to ask for.

Used by compare_text.py and make_family_text_goldens.py. Requirements: as compare_text.py.
"""
import datetime
import json

from transformers.utils.chat_template_utils import _compile_jinja_template

import make_text_goldens as goldens
from text_inputs import nfc

GLM_COMMANDS = ["[MASK]", "[gMASK]", "[sMASK]", "sop", "eop", "<|system|>", "<|user|>",
                "<|assistant|>", "<|observation|>"]
NOW = 1_700_000_000  # 14 Nov 2023


def expected_prompt(source, messages, kwargs):
    given = {"tools": None, "documents": None, "add_generation_prompt": False,
             "bos_token": "<s>", "eos_token": "</s>"}
    try:
        template = _compile_jinja_template(source)
        moment = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)
        template.globals["strftime_now"] = moment.strftime
        return template.render(messages=messages, **{**given, **kwargs})
    except Exception:  # of any type: we must refuse too
        return None


def qwen1_chat_ids(encoding, messages, generate):
    """make_context of qwen_generation_utils.py."""
    def encode(text):
        return encoding.encode(nfc(text), disallowed_special=())
    start, end = encoding.encode_single_token("<|im_start|>"), encoding.encode_single_token("<|im_end|>")
    line = encode("\n")
    system = "You are a helpful assistant."
    if messages and messages[0]["role"] == "system":
        system, messages = messages[0]["content"], messages[1:]
    ids = [start] + encode("system") + line + encode(system) + [end]
    for message in messages:
        ids += line + [start] + encode(message["role"]) + line + encode(message["content"]) + [end]
    return ids + (line + [start] + encode("assistant") + line if generate else [])


def glm_chat_ids(processor, messages, tools, generate):
    """build_chat_input of tokenization_chatglm.py, and what openai_api.py puts before it."""
    command = {name: processor.vocab_size() + i for i, name in enumerate(GLM_COMMANDS)}
    ids = [command["[gMASK]"], command["sop"]]

    def message_ids(role, metadata, content):
        metadata = metadata or ""
        return [command[f"<|{role}|>"]] + processor.encode(f"{metadata}\n") + processor.encode(content)
    if tools and (not messages or messages[0]["role"] != "system"):
        messages = [{"role": "system", "content": "Answer the following questions as best as you "
                     "can. You have access to the following tools:"}] + messages
    for i, message in enumerate(messages):
        content = message["content"] or ""
        if i == 0 and message["role"] == "system" and tools:
            functions = [tool["function"] for tool in tools]
            content += "\n" + json.dumps(functions, indent=4, ensure_ascii=False)
        role = "observation" if message["role"] == "tool" else message["role"]
        calls = message.get("tool_calls") or []
        if content or not calls:
            ids += message_ids(role, message.get("metadata"), content)
        for call in calls:
            function = call.get("function", call)
            arguments = function["arguments"]
            if not isinstance(arguments, str):
                arguments = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}"
                                      for name, value in arguments.items())
            ids += message_ids("assistant", function["name"],
                               f"```python\ntool_call({arguments})\n```")
    return ids + ([command["<|assistant|>"]] if generate else [])


def named(rng, messages):
    """The same with the fields that clients of tools fill: ids, names, metadata."""
    last = None
    for message in messages:
        for number, call in enumerate(message.get("tool_calls") or []):
            if "function" in call and rng.random() < 0.7:
                call["id"] = last = f"call-{rng.randrange(100)}-{number}"
        if message["role"] == "tool" and last and rng.random() < 0.8:
            message["tool_call_id"] = last
            message["name"] = rng.choice(["weather", "<|im_end|>", "Straßenkarte"])
        if message["role"] == "assistant" and rng.random() < 0.3:
            message["metadata"] = rng.choice(["weather", "interpreter", "<|user|>"])
    return messages


def alternating(rng):
    """What formats of two roles take."""
    messages, kwargs = goldens.conversation(rng)
    texts = [message["content"] for message in messages]
    system = [{"role": "system", "content": texts[0]}] if rng.random() < 0.5 else []
    return system + [{"role": ("user", "assistant")[i % 2], "content": text}
                     for i, text in enumerate(texts)], kwargs
