"""For pytest: vLLM's tests of its parsers meet ours, behind a gateway and an echo (echoed.py).

A module of vLLM, or of what it needs, is a stand-in here whose classes say nothing, but for its parsers and the messages in which
they answer. A whole answer is asked for whole and streamed character by character, which must be the same; a stream is asked for
as far as it has come.
"""
import itertools
import re
import typing

import echoed
import stand_ins

class Plain:
    """An object of one of vLLM's classes for requests and messages: its fields, whichever they are."""
    defaults: typing.ClassVar[dict] = {}

    def __init__(self, **fields):
        for name, value in {**self.defaults, **fields}.items():
            setattr(self, name, FunctionDefinition(**value) if name == "function" and isinstance(value, dict) else value)

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    def __repr__(self):
        return f"{type(self).__name__}({vars(self)})"


def plain(name, **defaults):
    return type(name, (Plain,), {"defaults": defaults})


FunctionDefinition = plain("FunctionDefinition", parameters=None, description=None, strict=None)
DeltaMessage = plain("DeltaMessage", role=None, content=None, reasoning=None, tool_calls=None)
DeltaToolCall = plain("DeltaToolCall", id=None, type=None, index=0, function=None)
ToolCall = plain("ToolCall", id=None, type="function", function=None)
ExtractedToolCallInformation = plain("ExtractedToolCallInformation", tools_called=False, content=None)
ChatCompletionRequest = plain("ChatCompletionRequest", tools=None, tool_choice=None, messages=(), include_reasoning=True)


class Tokenizer:
    """Marks, words and single characters; ids are given as tokens are met."""
    ids: typing.ClassVar[dict] = {}
    pieces = re.compile(r"</?(?:tool_call|think)>|\w+|.", re.S)
    all_special_tokens: typing.ClassVar[list] = []
    eos_token_id = -1

    def __init__(self, *_, **__):
        pass

    @classmethod
    def from_pretrained(cls, *_, **__):
        return cls()

    def tokenize(self, text, **_):
        return self.pieces.findall(text)

    def encode(self, text, **_):
        return [self.ids.setdefault(token, len(self.ids)) for token in self.tokenize(text)]

    def decode(self, ids, **_):
        names = list(self.ids)
        return "".join(i if isinstance(i, str) else names[i] for i in ([ids] if isinstance(ids, int) else ids))

    def get_vocab(self):
        self.encode("<tool_call></tool_call><think></think>")
        return dict(self.ids)

    def convert_tokens_to_ids(self, tokens):
        return self.encode(tokens)[0] if isinstance(tokens, str) else self.encode("".join(tokens))

    @staticmethod
    def convert_tokens_to_string(tokens):
        return "".join(tokens)


def detokenize_incrementally(tokenizer, all_input_ids, **_):
    return [], tokenizer.decode(all_input_ids[-1:]), 0, 0


def functions_of(tools, text):
    """What a request declares, or else what the text calls."""
    found = []
    for tool in tools or []:
        function = getattr(tool, "function", tool)
        found.append({"type": "function", "function": {"name": function.name, "parameters": function.parameters or {}}})
    # A name that is not whole yet may become one, so that calls are looked for.
    return found or [*echoed.declared(text), {"type": "function", "function": {"name": "none_of_these"}}]


class Parser:
    """Both kinds of vLLM's parsers."""
    form = ("none", "none")

    def __init__(self, tokenizer=None, tools=None, chat_template_kwargs=None, parser_engine_config=None, **_):
        self.model_tokenizer, self.tools = tokenizer or Tokenizer(), tools
        settings = chat_template_kwargs or parser_engine_config or {}
        self.thinks = settings.get("enable_thinking", settings.get("thinking", True)) is not False
        self.ids = (f"call_{i}" for i in itertools.count())
        self.sent, self.lengths = echoed.Said(), []

    @property
    def vocab(self):
        return self.model_tokenizer.get_vocab()

    def ask(self, text, form, request, stream, **settings):
        tools = getattr(request, "tools", None) or self.tools
        return echoed.ask(text, form, functions_of(tools, text) if form[0] != "none" else [], stream,
                          in_reasoning=form[1] == "think" and self.thinks, **settings)

    def whole(self, text, form, request):
        said, streamed = (self.ask(text, form, request, stream) for stream in (False, True))
        assert said.told() == streamed.told(), f"whole {said.told()}, streamed {streamed.told()}"
        return said

    def extract_tool_calls(self, model_output, request=None):
        said = self.whole(model_output, (self.form[0], "none"), request)
        calls = [ToolCall(id=next(self.ids), function=FunctionDefinition(name=call["name"], arguments=call["arguments"])) for call in said.calls]
        return ExtractedToolCallInformation(tools_called=bool(calls), tool_calls=calls, content=said.content or None)

    def extract_tool_calls_streaming(self, previous_text, current_text, delta_text, previous_token_ids=None, current_token_ids=None,
                                     delta_token_ids=None, request=None):
        return self.delta(self.ask(current_text, (self.form[0], "none"), request, True, open_end=True, cut=0))

    def extract_reasoning(self, model_output, request=None):
        said = self.whole(model_output, self.form, request)
        return said.reasoning or None, self.behind(said, model_output) or None

    @staticmethod
    def behind(said, text):
        """The text behind a thought as it stands, which their parser of calls gets."""
        return text[text.index(said.content or "<tool_call>"):] if said.calls else said.content

    def extract_reasoning_streaming(self, previous_text, current_text, delta_text, previous_token_ids=None, current_token_ids=None,
                                    delta_token_ids=None):
        said = self.ask(current_text, self.form, None, True, open_end=True, cut=0)
        said.content, said.calls = self.behind(said, current_text), []
        return self.delta(said)

    def delta(self, said):
        """What a stream tells beyond what it has told."""
        content, reasoning = said.content[len(self.sent.content):], said.reasoning[len(self.sent.reasoning):]
        calls = []
        for at, call in enumerate(said.calls):
            is_new = at >= len(self.sent.calls)
            arguments = call["arguments"] if is_new else call["arguments"][len(self.sent.calls[at]["arguments"]):]
            if is_new or arguments:
                calls.append(DeltaToolCall(index=at, id=next(self.ids) if is_new else None, type="function" if is_new else None,
                                           function=FunctionDefinition(name=call["name"] if is_new else None, arguments=arguments or None)))
        if reasoning and content:
            # One of them in a message.
            content = ""
            said.content = self.sent.content
        self.sent = said
        if not content and not reasoning and not calls:
            return None
        return DeltaMessage(content=content or None, reasoning=reasoning or None, tool_calls=calls)


def parser(name, calls="none", reasoning="none"):
    return type(name, (Parser,), {"form": (calls, reasoning)})


class Manager:
    parsers: typing.ClassVar[dict] = {}

    @classmethod
    def get_tool_parser(cls, name):
        return cls.parsers[name]

    get_reasoning_parser = get_tool_parser


Qwen3Parser = parser("Qwen3Parser", "qwen3_coder", "think")
Hermes = parser("Hermes2ProToolParser", "hermes")
DeepSeekR1 = parser("DeepSeekR1", "none", "think_begun")
# Questions of theirs about ids, at the end of tests of texts.
DeepSeekR1.is_reasoning_end = lambda self, ids: "</think>" in self.model_tokenizer.decode(ids)
DeepSeekR1.extract_content_ids = lambda self, ids: self.model_tokenizer.encode(self.model_tokenizer.decode(ids).partition("</think>")[2])
Manager.parsers = {"qwen3": Qwen3Parser, "deepseek_r1": DeepSeekR1, "hermes": Hermes,
                   "qwen3_coder": Qwen3Parser, "llama3_json": parser("Llama3JsonToolParser", "llama3_json")}
stand_ins.NAMES.update({"DeltaMessage": DeltaMessage, "DeltaToolCall": DeltaToolCall, "DeltaFunctionCall": FunctionDefinition,
         "FunctionCall": FunctionDefinition, "FunctionDefinition": FunctionDefinition, "ToolCall": ToolCall,
         "ExtractedToolCallInformation": ExtractedToolCallInformation, "ChatCompletionRequest": ChatCompletionRequest,
         "ChatCompletionToolsParam": plain("ChatCompletionToolsParam", type="function"), "AutoTokenizer": Tokenizer,
         "get_tokenizer": Tokenizer, "detokenize_incrementally": detokenize_incrementally, "Hermes2ProToolParser": Hermes,
         "Granite4ToolParser": parser("Granite4ToolParser", "hermes"), "Llama3JsonToolParser": Manager.parsers["llama3_json"],
         "Qwen3EngineToolParser": parser("Qwen3EngineToolParser", "qwen3_coder"), "ParserEngine": Qwen3Parser, "Qwen3Parser": Qwen3Parser,
         "ToolParserManager": Manager, "ReasoningParserManager": Manager, "qwen3_config": lambda **settings: settings,
         "TOOL_CALL_START": "<tool_call>", "TOOL_CALL_END": "</tool_call>", "is_mistral_tokenizer": lambda _: False,
         "Step3p5ToolParser": parser("Step3p5ToolParser", "qwen3_coder")})
