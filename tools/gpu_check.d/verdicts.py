"""Speeds against the goals, each named, with what it was and what is wanted."""
import settings


def rates(results):
    """Bytes and operations per second that this GPU was measured to give; 0 where nobody has."""
    ceilings = results.get("ceilings", {})
    memory = max(ceilings.get("copy_bytes_per_second", 0), ceilings.get("read_bytes_per_second", 0))
    return memory, ceilings.get("flops_per_second", 0)


def step_seconds(row):
    return row["batch"] / row["decode_tokens_per_second"]


def step_bytes(row):
    return row["weight_bytes_per_step"] + row["kv_bytes_per_step"]


def _verdict(what, value, goal, at_least=True):
    met = value >= goal if at_least else value <= goal
    return {"what": what, "value": round(value, 4), "goal": goal, "at_least": at_least, "met": met}


def _plain(row):
    """As users have it: nothing of it is switched off."""
    return row.get("cuda_graphs", True) and row.get("cuda_early_kernels", True)


def of_bench(results):
    memory, operations = rates(results)
    rows = [row for row in results.get("bench_ours", {}).get("rows", []) if _plain(row)]
    found = []
    beside = next((row for row in rows if row["batch"] == 1 and row["temperature"] == 0 and
                   row["prompt_tokens"] < settings.GOAL_PROMPT_TOKENS), None)
    for row in rows:
        prompt, batch, drawn = row["prompt_tokens"], row["batch"], row["temperature"] > 0
        if row["temperature"] > settings.GOAL_TEMPERATURE_MAX:
            continue
        if batch in settings.GOAL_DECODE and prompt < settings.GOAL_PROMPT_TOKENS and not drawn and memory:
            share = step_bytes(row) / step_seconds(row) / memory
            found.append(_verdict(f"decode of {batch}, of memory's speed", share, settings.GOAL_DECODE[batch]))
        if prompt == settings.GOAL_PROMPT_TOKENS and operations:
            found.append(_verdict(f"prompt of {prompt}, of the matrix rate", row["prefill_flops_per_second"] / operations,
                                  settings.GOAL_PROMPT))
        if beside is not None and row is not beside and batch == 1 and (drawn or prompt >= settings.GOAL_DEPTH):
            taken = step_seconds(row) / step_seconds(beside) / (step_bytes(row) / step_bytes(beside))
            name = f"at temperature {row['temperature']:.1f}" if drawn else f"at depth {prompt}"
            found.append(_verdict(f"a step {name}, of what its bytes say", taken, settings.GOAL_BESIDE_BYTES, False))
    return found


def of_products(results):
    """Products of few rows read their weight and nothing else that counts."""
    memory, operations = rates(results)
    found = []
    for row in results.get("products", {}).get("rows", []):
        name = f"product {row['product']}, {row['rows']} rows"
        if row["kernels"] != "chosen":
            continue
        if row["rows"] <= settings.GOAL_PRODUCT_ROWS and memory:
            found.append(_verdict(name + ", of memory's speed", row["bytes_per_second"] / memory, settings.GOAL_DECODE[1]))
        if row["rows"] == settings.GOAL_PROMPT_TOKENS and operations:
            found.append(_verdict(name + ", of the matrix rate", row["flops_per_second"] / operations, settings.GOAL_PROMPT))
    return found


def all_of(results):
    # A tiny model's speeds say nothing.
    return [] if results.get("facts", {}).get("rehearsal") else of_bench(results) + of_products(results)


def line(verdict):
    sign = "at least" if verdict["at_least"] else "at most"
    return (f"{verdict['what']}: {100 * verdict['value']:.0f} %, wanted {sign} {100 * verdict['goal']:.0f} %: "
            f"{'met' if verdict['met'] else 'MISSED'}")
