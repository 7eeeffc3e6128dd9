"""What a client was told, put together, and compared with what it is told when nothing happens.

Compared: ids, the bits of every log-probability, text, indices, why it ended, usage without what the cache saved, seed.
Not compared: times, and how tokens are dealt out to messages.
"""
import dataclasses
import struct

# Differences of one answer that are told; one mistake makes many.
SHOWN = 3


def float_bits(value):
    """A 32 bit float's bits. Protobuf hands it out as a wider one, which holds it exactly."""
    return struct.pack("<f", value)


@dataclasses.dataclass
class Output:
    """One of a request's `n`."""
    ids: list = dataclasses.field(default_factory=list)
    logprobs: list = dataclasses.field(default_factory=list)  # a token's bits, then its alternatives'
    text: str = ""
    end: tuple = None                                         # of its finish


@dataclasses.dataclass
class Answer:
    outputs: dict = dataclasses.field(default_factory=dict)   # by index among the request's `n`
    faults: list = dataclasses.field(default_factory=list)    # against the rules of every stream
    error: str = ""                                           # empty: the call ended well

    def add(self, message):
        """Takes the next message of the stream."""
        output = self.outputs.setdefault(message.output, Output())
        if output.end is not None and (message.tokens or message.text or message.HasField("finish")):
            self.faults.append(f"output {message.output}: a message after its end")
        if message.tokens and message.index != len(output.ids):
            self.faults.append(f"output {message.output}: tokens from index {message.index}, expected "
                               f"{len(output.ids)}")
        for token in message.tokens:
            output.ids.append(token.id)
            output.logprobs.append((float_bits(token.logprob),
                                    tuple((top.id, top.token, float_bits(top.logprob)) for top in token.top)))
        output.text += message.text
        if message.HasField("finish"):
            finish = message.finish
            output.end = (finish.reason, finish.stop, finish.seed, finish.usage.prompt_tokens,
                          finish.usage.completion_tokens)

    def is_whole(self, n):
        """Whether each of a request's `n` outputs (0: one) has tokens and an end."""
        return len(self.outputs) == max(n, 1) and all(output.ids and output.end for output in self.outputs.values())

    def tokens(self):
        return sum(len(output.ids) for output in self.outputs.values())


@dataclasses.dataclass
class Verdict:
    lost: str = ""       # why it did not come to its end
    different: str = ""  # where it is not what it should be


def first_difference(got, expected):
    """Where two lists part, both given that far."""
    for index, (one, other) in enumerate(zip(got, expected)):
        if one != other:
            return index
    return min(len(got), len(expected))


def compare_output(got, expected, whole):
    """What is different in `got`; empty: nothing. With `whole` false it may be a beginning."""
    for name in ("ids", "logprobs"):
        mine, other = getattr(got, name), getattr(expected, name)
        if mine != (other if whole else other[:len(mine)]):
            index = first_difference(mine, other)
            return f"{name} differ from index {index}: {mine[index:index + 2]}, expected {other[index:index + 2]}"
    if got.text != expected.text if whole else not expected.text.startswith(got.text):
        index = first_difference(got.text, expected.text)
        return (f"text differs from character {index}: {got.text[index:index + 20]!r}, expected "
                f"{expected.text[index:index + 20]!r}")
    if whole and got.end != expected.end:
        return f"it ended with {got.end}, expected {expected.end}"
    return ""


def judge(got, expected):
    """The verdict on an answer, beside the undisturbed one of the same request."""
    verdict = Verdict(lost=got.error)
    unfinished = [index for index in expected.outputs
                  if index not in got.outputs or got.outputs[index].end is None]
    if unfinished and not verdict.lost:
        verdict.lost = f"the stream ended well, but no end came of output {unfinished[0]}"
    differences = list(got.faults)
    for index, output in sorted(got.outputs.items()):
        if index not in expected.outputs:
            differences.append(f"output {index}: nobody asked for it")
            continue
        # What has its end must be whole, whatever became of the call.
        difference = compare_output(output, expected.outputs[index], whole=output.end is not None)
        if difference:
            differences.append(f"output {index}: {difference}")
    verdict.different = "; ".join(differences[:SHOWN])
    if len(differences) > SHOWN:
        verdict.different += f"; {len(differences) - SHOWN} more"
    return verdict
