"""The results of gpu_check as text."""
import counters
import settings
import verdicts


def share(value, limit):
    return f"{100 * value / limit:.0f} %" if limit else ""


def figure(value):
    return f"{value:.1f}" if value else ""


def one_line(text, length=160):
    return " ".join(str(text).split())[:length]


def problems(result):
    """What is wrong with a step, a line each."""
    found = []
    if result.get("error"):
        found.append(one_line(result["error"], 300))
    for name, text in result.get("errors", {}).items():
        found.append(f"{name}: {one_line(text, 240)}")
    for test, suite in result.get("suites", {}).items():
        for name, how in suite.get("ended_the_program", {}).items():
            found.append(f"{test}: {name} {how}; the rest ran without it")
        if suite.get("failed"):
            found.append(f"{test}: {len(suite['failed'])} failed: {one_line(', '.join(suite['failed']), 300)}")
        if suite.get("problem"):
            found.append(f"{test}: {one_line(suite['problem'], 240)}")
    if result.get("different"):
        found.append("answers differ: " + one_line(", ".join(result["different"]), 300))
    for name, text in result.get("verdicts", {}).items():
        if text != "passed":
            found.append(f"{name}: {one_line(text, 160)}")
    return found


def verdict(result):
    if "not_run" in result:
        return "not run: " + one_line(result["not_run"])
    ran = sum(suite.get("ran", 0) for suite in result.get("suites", {}).values())
    if result["passed"]:
        return f"passed, {ran} tests" if ran else "passed"
    return "FAILED: " + "; ".join(problems(result)[:3])


def steps_of(results):
    return {name: result for name, result in results.items() if isinstance(result, dict) and "passed" in result}


def rows_of_loads(results):
    return [row for step in ("bench_ours", "switches") for row in results.get(step, {}).get("rows", [])]


def summary(results, missing):
    """What must not be lost, short enough for the end of an output."""
    lines = ["", "gpu_check: summary"]
    facts = results.get("facts", {})
    lines.append(one_line(f"{facts.get('date', '')} {facts.get('gpu', 'no facts of the GPU')} {facts.get('build', '')} "
                          f"{facts.get('torch', '')}", 300))
    for name, result in steps_of(results).items():
        if "not_run" in result:
            lines.append(f"  {name}: {verdict(result)}")
        else:
            lines.append(f"  {name}: {'passed' if result['passed'] else 'FAILED'} ({result['seconds']} s)")
            lines += [f"    {text}" for text in problems(result)[:8]]
    products = results.get("products", {})
    lines += [f"  {text}" for text in (products.get("remarks", {}).get("chosen"), products.get("switched_off")) if text]
    memory, operations = verdicts.rates(results)
    if memory:
        lines.append(f"  measured: memory {memory / 1e12:.2f} TB/s, matrix rate {operations / 1e12:.0f} TFLOP/s")
    for row in rows_of_loads(results):
        lines.append("  {} x {}, temperature {:g}{}{}{}: prompts {:.0f} tokens/s, decode {:.1f} tokens/s".format(
            row["batch"], row["prompt_tokens"], row["temperature"], "" if row.get("cuda_graphs", True) else ", no graphs",
            "" if row.get("cuda_early_kernels", True) else ", no early kernels", "" if row.get("wgmma", True) else ", no wgmma",
            row["prefill_tokens_per_second"], row["decode_tokens_per_second"]))
    lines += ["  " + verdicts.line(one) for one in verdicts.all_of(results)]
    lines += [f"  LEFT BEHIND: {text}" for text in results.get("stuck", [])]
    if missing:
        lines.append("  did not come to: " + ", ".join(missing))
    failed = [name for name, result in steps_of(results).items() if not result["passed"] and "not_run" not in result]
    lines.append("gpu_check: failed: " + (", ".join(failed) or "nothing"))
    text = "\n".join(lines)
    return text if len(text) <= settings.SUMMARY_MAX else text[:settings.SUMMARY_MAX // 2] + "\n ...\n" + text[-settings.SUMMARY_MAX // 2:]


def markdown(results):
    lines = ["# CUDA backend, checked by tools/gpu_check", ""]
    facts = results.get("facts", {})
    lines += [f"{facts.get('date', '')}: {facts.get('gpu', 'no GPU')}, {facts.get('build', '')}, {facts.get('torch', '')}", "",
              "| step | result | seconds |", "|---|---|---|"]
    for name, result in steps_of(results).items():
        lines.append(f"| {name} | {one_line(verdict(result), 400)} | {result['seconds']} |")
    for part in (goals, ceilings, benches, sanitizer, library, products, codes, counted):
        lines += part(results)
    return "\n".join(lines) + "\n"


def goals(results):
    found = verdicts.all_of(results)
    if not found:
        return []
    return ["", "| speed | measured | wanted | |", "|---|---|---|---|"] + [
        "| {} | {:.0f} % | {} {:.0f} % | {} |".format(one["what"], 100 * one["value"], "at least" if one["at_least"] else "at most",
                                                     100 * one["goal"], "met" if one["met"] else "**missed**") for one in found]


def ceilings(results):
    found = results.get("ceilings", {})
    if "read_bytes_per_second" not in found:
        return []
    return ["", "This GPU, through PyTorch: copies {:.2f} TB/s, reads {:.2f} TB/s, {:.0f} TFLOP/s.".format(
        found["copy_bytes_per_second"] / 1e12, found["read_bytes_per_second"] / 1e12, found["flops_per_second"] / 1e12)]


def benches(results):
    ours = rows_of_loads(results)
    theirs = {(row["prompt"], row["batch"]): row for row in results.get("bench_transformers", {}).get("rows", [])}
    memory, operations = verdicts.rates(results)
    lines = ["", "| prompt | batch | temperature | kernels by graphs | early | prefill tokens/s | of the matrix rate | transformers "
             "| decode tokens/s | bytes of a step, of memory's speed | transformers | load |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"] if ours else []
    for row in ours:
        other = theirs.get((row["prompt_tokens"], row["batch"]), {})
        lines.append("| {} | {} | {:g} | {} | {} | {:.0f} | {} | {} | {:.1f} | {} | {} | {:.1f} s |".format(
            row["prompt_tokens"], row["batch"], row["temperature"],
            f"{row['kernels_by_graphs']} of {row['kernels']}, {row['graph_bytes'] / 2**20:.0f} MiB"
            if row.get("cuda_graphs", True) else "off",
            "on" if row.get("cuda_early_kernels", True) else "off",
            row["prefill_tokens_per_second"], share(row["prefill_flops_per_second"], operations),
            figure(other.get("prefill_tokens_per_second")), row["decode_tokens_per_second"],
            share(verdicts.step_bytes(row) / verdicts.step_seconds(row), memory), figure(other.get("decode_tokens_per_second")),
            row["load_seconds"]))
    return lines


def sanitizer(results):
    found = results.get("sanitizer", {}).get("verdicts", {})
    return ["", "| compute-sanitizer | |", "|---|---|"] + [f"| {name} | {text} |" for name, text in found.items()] if found else []


def library(results):
    found = results.get("cublas_class", {})
    if not found.get("rows"):
        return []
    lines = ["", f"{found['class']}: {found['remark'] or 'no remark'}; exact: {found.get('exact')}; "
             f"{100 * found.get('same_tokens', 0):.0f} % of the answers have the exact class's tokens.", "",
             "| product | rows | µs | TFLOP/s |", "|---|---|---|---|"]
    lines += ["| {} {} x {} | {} | {:.1f} | {:.1f} |".format(
        r["product"], r["out"], r["k"], r["rows"], r["microseconds"], r["flops_per_second"] / 1e12) for r in found["rows"]]
    lines += ["", "| class | prompt | batch | prefill tokens/s |", "|---|---|---|---|"]
    return lines + [f"| {r['numerics_class']} | {r['prompt_tokens']} | {r['batch']} | {r['prefill_tokens_per_second']:.0f} |"
                    for r in found.get("prompts", [])]


def codes(results):
    found, (memory, _) = results.get("codes", {}).get("rows", []), verdicts.rates(results)
    if not found:
        return []
    return ["", "| product with codes | codes | rows | µs | TB/s | of memory's speed |", "|---|---|---|---|---|---|"] + [
        "| {} {} x {} | {} | {} | {:.1f} | {:.2f} | {} |".format(
            r["product"], r["out"], r["k"], r["weights"], r["rows"], r["microseconds"], r["bytes_per_second"] / 1e12,
            share(r["bytes_per_second"], memory)) for r in found]


def counted(results):
    found = results.get("counters", {}).get("rows", [])
    return counters.table(found) if found else []


def products(results):
    found, price = results.get("products", {}), results.get("price_of_one_voice", {}).get("rows", [])
    memory, operations = verdicts.rates(results)
    lines = []
    if found.get("rows"):
        lines += ["", found["remarks"].get("chosen") or "no wgmma on this device", "",
                  "| product | leaves | rows | kernels | µs | TB/s | of memory's speed | TFLOP/s | of the matrix rate "
                  "| cuBLASLt's choice, µs |", "|---|---|---|---|---|---|---|---|---|---|"]
        theirs = {(r["out"], r["k"], r["rows"]): r["microseconds"] for r in price}
        lines += ["| {} {} x {} | {} | {} | {} | {:.1f} | {:.2f} | {} | {:.1f} | {} | {} |".format(
            r["product"], r["out"], r["k"], r["leaves"], r["rows"], r["kernels"], r["microseconds"],
            r["bytes_per_second"] / 1e12, share(r["bytes_per_second"], memory) if r["rows"] in settings.FEW_ROWS else "",
            r["flops_per_second"] / 1e12, share(r["flops_per_second"], operations) if r["rows"] in settings.MANY_ROWS else "",
            figure(theirs.get((r["out"], r["k"], r["rows"])))) for r in found["rows"]]
    if price:
        lines += ["", "| product, cuBLASLt's choice | rows | µs |", "|---|---|---|"]
        lines += [f"| {r['out']} x {r['k']} | {r['rows']} | {r['microseconds']:.1f} |" for r in price]
    return lines
