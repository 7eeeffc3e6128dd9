"""The rows of the comparison: what work each is, and which figures it has."""
import dataclasses
import random

ANSWER_TOKENS = 64
BATCH_PROMPT = 128
PARALLEL = 8
FIRST_ID = 1000  # ids that no tokenizer uses for control are at the low end of ours
WARM_UP_PROMPT, WARM_UP_ANSWER = 32, 4  # tokens


def _random_ids(seed, tokens, vocabulary):
    draw = random.Random(seed)
    return [draw.randrange(FIRST_ID, vocabulary) for _ in range(tokens)]


def warm_up_prompts(vocabulary):
    return [_random_ids("warm-up", WARM_UP_PROMPT, vocabulary)]


@dataclasses.dataclass(frozen=True)
class Work:
    """`count` prompts of `prompt` tokens at once, each answered with `answer` tokens."""
    name: str
    kind: str  # the method of a side that does it
    prompt: int
    answer: int = ANSWER_TOKENS
    count: int = 1
    depth: int = 0  # of "answer": tokens before those that are timed; its prompt has one at least
    short_prompt: int = BATCH_PROMPT  # of the second half of "layers"
    figures: tuple = (("answers together", "tokens/s", "more"),)

    def warm_up(self, number, vocabulary):
        """One prompt of the length, none of those that are measured."""
        return [_random_ids(f"{self.name} {number} warm-up", self.prompt, vocabulary)]

    def prompts(self, number, vocabulary, count=None, prompt=None):
        """Of this round: the same for every side, others in every round, so that no cache of prefixes helps."""
        prompt = prompt or self.prompt
        return [_random_ids(f"{self.name} {number} {prompt} {i}", prompt, vocabulary) for i in range(count or self.count)]


def _prompt(tokens):
    return Work(f"prefill-{tokens}", "prompt", tokens, answer=1, figures=(("prompt", "tokens/s", "more"),))


def _answer(depth):
    return Work(f"decode-{depth}", "answer", max(depth, 1), depth=depth, figures=(("answer", "tokens/s", "more"),))


def _together(count):
    return Work(f"streams-{count}", "together", BATCH_PROMPT, count=count)


_SERVER = Work("server", "server", 512, count=PARALLEL,
               figures=(("first token, median", "s", "less"), ("longest gap", "s", "less"),
                        ("answers together", "tokens/s", "more")))
_LAYERS = Work("layers-2", "layers", 512, count=PARALLEL,
               figures=(("prompt of 512", "tokens/s", "more"), (f"{PARALLEL} answers together", "tokens/s", "more")))
ALL = (_prompt(512), _prompt(2048), _answer(0), _answer(512), _answer(2048), _together(8), _together(16), _together(32),
       _together(64), _SERVER, _LAYERS)
