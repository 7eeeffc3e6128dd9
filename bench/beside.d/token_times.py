"""What follows from the times at which the tokens of answers came."""
import statistics

import readings


def together(times, max_tokens):
    """Tokens/s from the last stream's first event to the first stream's last; 0 where there is no such time."""
    begin, end = max(one[0] for one in times), min(one[-1] for one in times)
    if end <= begin:
        return 0.0
    # An event may bring several tokens, or none where a letter is not whole yet.
    tokens = sum(sum(begin < time <= end for time in one) * max_tokens / len(one) for one in times)
    return tokens / (end - begin)


def figures(times, seconds, max_tokens):
    """Of the times at which each answer's events came, since all were asked at once: {"ttft": median s, "gap": longest s,
    "itl": median s, "tokens/s": of all together, "together": while all generate; 0 where some end before others begin}."""
    gaps = [later - earlier for one in times for earlier, later in zip(one, one[1:])]
    return {"ttft": statistics.median(one[0] for one in times),
            "gap": max(gaps, default=0.0),
            "itl": statistics.median(gaps) if gaps else 0.0,
            "tokens/s": len(times) * max_tokens / seconds,
            "together": together(times, max_tokens),
            "events": statistics.median(len(one) for one in times)}


def values(work, times):
    """The values of the work's figures, of the time of every single token."""
    got = figures(times, max(one[-1] for one in times), work.answer)
    if work.kind == "prompt":
        return [work.prompt / got["ttft"]]
    if work.kind == "server":
        return [got["ttft"], got["gap"], got["tokens/s"]]
    if not got["together"]:
        raise readings.ReadingError("some answers ended before others began")
    return [got["together"]]
