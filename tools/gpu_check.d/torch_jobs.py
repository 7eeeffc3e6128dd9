"""Jobs of gpu_check for PyTorch, in a process of their own: each gets its values and a function that keeps what it found
so far."""
import json
import os
import time

# Logits of our bf16 products against PyTorch in f32: the bound the project set itself.
LOGPROB_TOLERANCE = 2e-2


def wait_for(place):
    import torch
    if place != "cpu":
        torch.cuda.synchronize()


def measure_ceilings(job, report):
    import torch
    place, result = job["place"], {}

    def best(function):
        times = []
        for _ in range(5):
            wait_for(place)
            started = time.monotonic()
            for _ in range(5):
                function()
            wait_for(place)
            times.append((time.monotonic() - started) / 5)
        return min(times)

    count = (1 << 20) if job["small"] else (1 << 32)
    a = torch.empty(count, device=place, dtype=torch.uint8)
    b = torch.ones_like(a)
    result["copy_bytes_per_second"] = 2 * count / best(lambda: a.copy_(b))
    # Decoding only reads.
    words = b.view(torch.int32)
    result["read_bytes_per_second"] = count / best(lambda: words.max())
    del a, b, words
    size = 256 if job["small"] else 8192
    m = torch.randn(size, size, device=place, dtype=torch.bfloat16)
    result["flops_per_second"] = 2 * size**3 / best(lambda: m @ m)
    report(result)


def compare_logprobs(job, report):
    import torch
    from transformers import AutoModelForCausalLM
    prompt, tokens, logprobs = job["prompt"], job["tokens"], job["logprobs"]
    torch.backends.cuda.matmul.allow_tf32 = False
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32).to(job["place"])
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens], device=job["place"])).logits[0].float()
    theirs = torch.log_softmax(logits[len(prompt) - 1:-1], -1)
    worst = max(abs(theirs[i, t].item() - logprobs[i]) / max(1, abs(logprobs[i])) for i, t in enumerate(tokens))
    report({"passed": worst <= LOGPROB_TOLERANCE, "worst_relative_difference": worst, "tokens": len(tokens)})


def time_transformers(job, report):
    """Prompts through one call of the model; decoding by `generate` over a static cache, which compiles it."""
    import torch
    from transformers import AutoModelForCausalLM
    place, rows = job["place"], []
    started = time.monotonic()
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.bfloat16).to(place).eval()
    load_seconds = time.monotonic() - started
    # A rehearsal's model has a small vocabulary.
    vocab = model.config.vocab_size

    def seconds(function):
        wait_for(place)
        started = time.monotonic()
        function()
        wait_for(place)
        return time.monotonic() - started

    with torch.no_grad():
        for prompt, batch, output in job["loads"]:
            ids = torch.randint(0, vocab, (batch, prompt), device=place)
            prefill = min(seconds(lambda: model(ids, use_cache=True, logits_to_keep=1)) for _ in range(3))
            rows.append({"prompt": prompt, "batch": batch, "prefill_tokens_per_second": prompt * batch / prefill})
            report({"load_seconds": load_seconds, "rows": rows})
        # Loads with few output tokens are for measuring the prompt.
        for row, (prompt, batch, output) in zip(rows, job["loads"]):
            if place != "cpu" and output < 64:
                continue
            ids = torch.randint(0, vocab, (batch, prompt), device=place)
            mask = torch.ones_like(ids)
            runs = [seconds(lambda: model.generate(ids, attention_mask=mask, max_new_tokens=output, min_new_tokens=output,
                                                   do_sample=False, cache_implementation="static")) for _ in range(4)]
            decode = max(min(runs) - prompt * batch / row["prefill_tokens_per_second"], 1e-9)
            row["decode_tokens_per_second"] = (output - 1) * batch / decode
            row["first_run_seconds"] = runs[0]
            report({"load_seconds": load_seconds, "rows": rows})


def time_products(job, report):
    import torch
    place, small, rows = job["place"], job["small"], []

    def microseconds(function, repeats):
        """By the GPU's clock, where there is a GPU."""
        if place == "cpu":
            started = time.monotonic()
            for _ in range(repeats):
                function()
            return 1e6 * (time.monotonic() - started) / repeats
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            function()
        end.record()
        torch.cuda.synchronize()
        return 1000 * start.elapsed_time(end) / repeats

    for out, k in [(6144, 4096), (4096, 4096), (24576, 4096), (4096, 12288)]:
        weights = [torch.randn(out // (64 if small else 1), k, device=place, dtype=torch.bfloat16) for _ in range(4)]
        for count in (1, 8) if small else (1, 8, 64, 2048, 8192):
            x = torch.randn(count, k, device=place, dtype=torch.bfloat16)

            def multiply():
                for w in weights:
                    x @ w.T

            multiply()
            rows.append({"out": out, "k": k, "rows": count, "microseconds": microseconds(multiply, 20) / len(weights)})
            report({"rows": rows})


TORCH_JOBS = {job.__name__: job for job in (measure_ceilings, compare_logprobs, time_transformers, time_products)}


def run_torch_job(name, path):
    with open(path, encoding="utf-8") as file:
        job = json.load(file)

    def report(result):
        with open(job["report"] + ".new", "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(job["report"] + ".new", job["report"])

    TORCH_JOBS[name](job, report)
