"""The requests of a run, drawn from its seed, and their undisturbed answers."""
import dataclasses
import random

# Streams must be long enough to be hit past their first token, and short enough for many faults to see new ones.
SHORTEST, LONGEST = 120, 240
# Of the demo model; a long prompt and its answer stay below the context.
CONTEXT, VOCABULARY = 2048, 1200
LONG_PROMPT = (500, 900)
# With --long-prompts: as long as an answer and the position below leave room for.
LONGEST_PROMPT = (1300, 1370)
# With guesses an answer is drawn from so few ids that it says again what it has said.
FEW_IDS = (2, 6)
# Characters of a stop string; the first length counts of which one is found.
STOP_LENGTHS = (4, 12, 36)
# No case's sequence comes to this position; a poisoned one does after some tokens of its answer.
POISONED_POSITION = 1500
POISON_LEAD = (4, 40)


@dataclasses.dataclass
class Case:
    name: str
    request: object          # a GenerateRequest
    expected: object = None  # an Answer


def _prompt(request, draw, length):
    request.token_ids.ids.extend(draw.randrange(VOCABULARY) for _ in range(length))


def _greedy(request, draw):
    request.sampling.temperature = 0


def _seeded(request, draw):
    request.sampling.temperature = draw.choice((0.7, 1.0, 1.3))
    request.sampling.top_p = draw.choice((1.0, 0.95))
    request.sampling.top_k = draw.choice((0, 40))


def _penalties(request, draw):
    _seeded(request, draw)
    request.sampling.repetition_penalty = 1.2
    request.sampling.presence_penalty = 0.5
    request.sampling.frequency_penalty = 0.25


def _logprobs(request, draw):
    _seeded(request, draw)
    request.sampling.logprobs = True
    request.sampling.top_logprobs = draw.choice((0, 3))


def _several(request, draw):
    _logprobs(request, draw)
    request.n = draw.choice((2, 3))
    request.sampling.max_tokens = SHORTEST


def _stop(request, draw):
    # Its stop string is chosen from its own text: see with_stops().
    _seeded(request, draw)


def _long(request, draw):
    _logprobs(request, draw)
    del request.token_ids.ids[:]
    _prompt(request, draw, draw.randrange(*LONG_PROMPT))
    request.sampling.max_tokens = SHORTEST


KINDS = {"greedy": _greedy, "seeded": _seeded, "penalties": _penalties, "logprobs": _logprobs, "several": _several,
         "stop": _stop, "long": _long}


def _longest(request, draw):
    _logprobs(request, draw)
    del request.token_ids.ids[:]
    _prompt(request, draw, draw.randrange(*LONGEST_PROMPT))
    request.sampling.max_tokens = SHORTEST


# Most of them take long to compute again.
LONG_KINDS = {"greedy": _greedy, "longest": _longest, "several": _several, "longest2": _longest}


# Texts without an end of their own, so that answers are as long as those without a grammar.
GRAMMARS = (("regex", "([A-Za-z]{1,8}[ ,.])*"), ("regex", "([0-9]+[-+*/=])*"),
            ("ebnf", 'root ::= ("[" word ("," word)* "]" [ \\n])*\nword ::= [a-z]{1,6}'),
            ("json_schema", '{"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}, '
                            '"b": {"enum": ["one", "two", null]}}, "required": ["a", "b"]}, "minItems": 1000}'))


def draw_cases(messages, seed, count, long_prompts=False, grammars=False, guesses=False):
    """`count` requests, of each kind in turn; with `grammars` every one is held to one of some. With `guesses` answers
    repeat themselves, and the requests say that nothing is guessed of them: forget_guesses() takes that back."""
    kinds = LONG_KINDS if long_prompts else KINDS
    draw = random.Random(f"{seed} requests")
    cases = []
    for number in range(count):
        kind = list(kinds)[number % len(kinds)]
        request = messages.GenerateRequest()  # no name: several clients send the same
        _prompt(request, draw, draw.randrange(4, 40))
        request.sampling.seed = draw.getrandbits(64)
        request.sampling.max_tokens = draw.randrange(SHORTEST, LONGEST)
        request.sampling.ignore_eos = True
        kinds[kind](request, draw)
        if grammars:
            setattr(request.grammar, *GRAMMARS[number % len(GRAMMARS)])
        elif guesses:
            request.sampling.allowed_token_ids.extend(sorted(draw.sample(range(VOCABULARY), draw.randint(*FEW_IDS))))
        if guesses:
            request.speculation.mode = request.speculation.MODE_OFF
        cases.append(Case(f"{kind}-{number}", request))
    return cases


def forget_guesses(cases):
    """From now on the cluster says whether tokens of these cases are guessed."""
    for case in cases:
        case.request.ClearField("speculation")


def draw_poison(messages, draw):
    """A request whose answer comes to the position at which workers die."""
    request = messages.GenerateRequest()
    _prompt(request, draw, POISONED_POSITION - draw.randrange(*POISON_LEAD))
    request.sampling.max_tokens = SHORTEST
    request.sampling.ignore_eos = True
    return request


def with_stops(cases):
    """Gives the cases of the kind "stop" a text that their answers come to after more than half: so the search for it
    goes on over a cut. The answers known so far of these cases are forgotten."""
    for case in cases:
        if not case.name.startswith("stop"):
            continue
        text = case.expected.outputs[0].text
        stop = next(filter(None, (_stop_in(text, length) for length in STOP_LENGTHS)), None)
        if stop:
            case.request.sampling.stop.append(stop)
            case.expected = None
    return cases


def _stop_in(text, length):
    """A part of so many characters that comes late, and not before; None: there is none."""
    for begin in range(len(text) * 2 // 3, len(text) - length):
        stop = text[begin:begin + length]
        if text.index(stop) > len(text) // 2 and "�" not in stop:
            return stop
    return None
