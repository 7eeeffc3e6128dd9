"""vLLM through its engine, in this process:  ask_vllm.py THREADS MODEL_DIR"""
import os
import sys
import time

import asked

KV_GIB = 4
CONTEXT = 4096


def start():
    threads, model = int(sys.argv[1]), sys.argv[2]
    processors = sorted(os.sched_getaffinity(0))[:threads]
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, processors))
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(KV_GIB)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    import torch
    import vllm

    engine = vllm.LLMEngine.from_engine_args(vllm.EngineArgs(
        model=model, dtype="bfloat16", max_model_len=CONTEXT, skip_tokenizer_init=True))
    scheduler = engine.vllm_config.scheduler_config
    settings = {"version": f"vllm {vllm.__version__}, torch {torch.__version__}", "dtype": "bfloat16", "threads": processors,
                "max_num_batched_tokens": scheduler.max_num_batched_tokens,
                "enable_chunked_prefill": scheduler.enable_chunked_prefill,
                "enable_prefix_caching": engine.vllm_config.cache_config.enable_prefix_caching}
    number = 0

    def answer(prompts, tokens):
        nonlocal number
        how = vllm.SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False,
                                  output_kind=vllm.sampling_params.RequestOutputKind.DELTA)
        times = {}
        began = time.perf_counter()
        for ids in prompts:
            number += 1
            times[str(number)] = []
            engine.add_request(str(number), {"prompt_token_ids": ids}, how)
        while engine.has_unfinished_requests():
            outputs = engine.step()
            now = time.perf_counter() - began
            for output in outputs:
                # The engine may make its own name of ours.
                times[output.request_id.split("-")[0]] += [now] * len(output.outputs[0].token_ids)
        return list(times.values())

    return settings, answer


if __name__ == "__main__":
    sys.exit(asked.serve(start))
