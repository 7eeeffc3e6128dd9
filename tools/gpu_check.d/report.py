"""The results of gpu_check as text."""


def failed_tests(output):
    """The names of the tests that failed, which may stand far above the end of what they printed."""
    names = {line.split(",")[0].split(" (")[0] for line in output.splitlines() if line.startswith("[  FAILED  ] ")}
    return "".join(name + "\n" for name in sorted(names))[:2000]


def share(value, limit):
    return f"{100 * value / limit:.0f} %" if limit else ""


def figure(value):
    return f"{value:.1f}" if value else ""


def markdown(results):
    lines = ["# CUDA backend, checked by tools/gpu_check", ""]
    facts = results.get("facts", {})
    lines += [f"{facts.get('date', '')}: {facts.get('gpu', 'no GPU')}, {facts.get('build', '')}", "",
              "| step | result | seconds |", "|---|---|---|"]
    for name, result in results.items():
        verdict = "not run: " + result["not_run"] if "not_run" in result else "passed" if result["passed"] else "**failed** " + str(result.get("error", ""))[:120].replace("\n", " ")
        lines.append(f"| {name} | {verdict} | {result['seconds']} |")
    ours = results.get("bench_ours", {}).get("rows", [])
    theirs = {(row["prompt"], row["batch"]): row for row in results.get("bench_transformers", {}).get("rows", [])}
    ceilings = results.get("ceilings", {})
    if "read_bytes_per_second" in ceilings:
        lines += ["", "This GPU, through PyTorch: copies {:.2f} TB/s, reads {:.2f} TB/s, {:.0f} TFLOP/s.".format(
            ceilings["copy_bytes_per_second"] / 1e12, ceilings["read_bytes_per_second"] / 1e12,
            ceilings["flops_per_second"] / 1e12)]
    if ours:
        lines += ["", "| prompt | batch | kernels by graphs | early | prefill tokens/s | of the matrix rate | transformers "
                  "| decode tokens/s | bytes of a step, of the copy rate | transformers | load |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in ours:
        other = theirs.get((row["prompt_tokens"], row["batch"]), {})
        moved = row["decode_tokens_per_second"] / row["batch"] * (row["weight_bytes_per_step"] + row["kv_bytes_per_step"])
        lines.append("| {} | {} | {} | {} | {:.0f} | {} | {} | {:.1f} | {} | {} | {:.1f} s |".format(
            row["prompt_tokens"], row["batch"],
            f"{row['kernels_by_graphs']} of {row['kernels']}" if row.get("cuda_graphs", True) else "off",
            "on" if row.get("cuda_early_kernels", True) else "off",
            row["prefill_tokens_per_second"], share(row["prefill_flops_per_second"], ceilings.get("flops_per_second")),
            figure(other.get("prefill_tokens_per_second")), row["decode_tokens_per_second"],
            share(moved, ceilings.get("copy_bytes_per_second")), figure(other.get("decode_tokens_per_second")),
            row["load_seconds"]))
    verdicts = results.get("sanitizer", {}).get("verdicts", {})
    if verdicts:
        lines += ["", "| compute-sanitizer | |", "|---|---|"] + [f"| {name} | {text} |" for name, text in verdicts.items()]
    library = results.get("cublas_class", {})
    if library.get("rows"):
        lines += ["", f"{library['class']}: {library['remark'] or 'no remark'}; exact: {library.get('exact')}; "
                  f"{100 * library.get('same_tokens', 0):.0f} % of the answers have the exact class's tokens.", "",
                  "| product | rows | µs | TFLOP/s |", "|---|---|---|---|"]
        lines += ["| {} {} x {} | {} | {:.1f} | {:.1f} |".format(
            r["product"], r["out"], r["k"], r["rows"], r["microseconds"], r["flops_per_second"] / 1e12)
            for r in library["rows"]]
        lines += ["", "| class | prompt | batch | prefill tokens/s |", "|---|---|---|---|"]
        lines += [f"| {r['numerics_class']} | {r['prompt_tokens']} | {r['batch']} | {r['prefill_tokens_per_second']:.0f} |"
                  for r in library["prompts"]]
    price = results.get("price_of_one_voice", {}).get("rows", [])
    products = results.get("products", {})
    if products.get("rows"):
        lines += ["", products["remarks"].get("chosen") or "no wgmma on this device", "",
                  "| product | leaves | rows | kernels | µs | TFLOP/s | of the matrix rate | cuBLASLt's choice, µs |",
                  "|---|---|---|---|---|---|---|---|"]
        theirs = {(r["out"], r["k"], r["rows"]): r["microseconds"] for r in price}
        lines += ["| {} {} x {} | {} | {} | {} | {:.1f} | {:.1f} | {} | {} |".format(
            r["product"], r["out"], r["k"], r["leaves"], r["rows"], r["kernels"], r["microseconds"],
            r["flops_per_second"] / 1e12, share(r["flops_per_second"], ceilings.get("flops_per_second")),
            figure(theirs.get((r["out"], r["k"], r["rows"])))) for r in products["rows"]]
    if price:
        lines += ["", "| product, cuBLASLt's choice | rows | µs |", "|---|---|---|"]
        lines += [f"| {r['out']} x {r['k']} | {r['rows']} | {r['microseconds']:.1f} |" for r in price]
    return "\n".join(lines) + "\n"
