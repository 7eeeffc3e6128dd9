"""What vLLM 0.33 exports of text serving, as far as we have it: names, labels, and the bounds of histograms.

Left out are metrics of what we have not (sleep, adapters, caches elsewhere and of media, KV connectors,
sampled block lifetimes) and calls of tool parsers, which the gateway makes.
"""
_BOTH = {"model_name", "engine"}
# The last two are names of earlier years, which dashboards still have.
GAUGES = {
    "vllm:num_requests_running": _BOTH,
    "vllm:num_requests_waiting": _BOTH,
    "vllm:num_requests_waiting_by_reason": _BOTH | {"reason"},
    "vllm:kv_cache_usage_perc": _BOTH,
    "vllm:cache_config_info": _BOTH | {"block_size", "num_gpu_blocks", "num_cpu_blocks", "cache_dtype",
                                       "enable_prefix_caching"},
    "vllm:gpu_cache_usage_perc": _BOTH,
}
COUNTERS = {
    "vllm:prompt_tokens": _BOTH,
    "vllm:prompt_tokens_by_source": _BOTH | {"source"},
    "vllm:prompt_tokens_cached": _BOTH,
    "vllm:prompt_tokens_cached_by_source": _BOTH | {"source"},
    "vllm:generation_tokens": _BOTH,
    "vllm:num_preemptions": _BOTH,
    "vllm:request_success": _BOTH | {"finished_reason"},
    "vllm:prefix_cache_queries": _BOTH,
    "vllm:prefix_cache_hits": _BOTH,
    "vllm:admission_rejections": {"model_name", "reason"},
    "vllm:spec_decode_num_drafts": _BOTH,
    "vllm:spec_decode_num_draft_tokens": _BOTH,
    "vllm:spec_decode_num_accepted_tokens": _BOTH,
    "vllm:spec_decode_num_accepted_tokens_per_pos": _BOTH | {"position"},
}
_CONTEXT = 2048  # of the demo model
BOUNDS = {
    "first": [.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560],
    "gap": [.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80],
    "request": [.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680],
    "tokens": [step * 10 ** power for power in range(10) for step in (1, 2, 5) if step * 10 ** power <= _CONTEXT],
    "n": [1, 2, 5, 10, 20],
    "preemptions": [1, 2, 3, 4, 5, 10, 20],
    "step": [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
}
HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": "first",
    "vllm:inter_token_latency_seconds": "gap",
    "vllm:request_time_per_output_token_seconds": "gap",
    "vllm:time_per_output_token_seconds": "gap",
    "vllm:e2e_request_latency_seconds": "request",
    "vllm:request_queue_time_seconds": "request",
    "vllm:request_inference_time_seconds": "request",
    "vllm:request_prefill_time_seconds": "request",
    "vllm:request_decode_time_seconds": "request",
    "vllm:request_prompt_tokens": "tokens",
    "vllm:request_generation_tokens": "tokens",
    "vllm:request_max_num_generation_tokens": "tokens",
    "vllm:request_params_max_tokens": "tokens",
    "vllm:request_prefill_kv_computed_tokens": "tokens",
    "vllm:request_params_n": "n",
    "vllm:request_num_preemptions": "preemptions",
    "vllm:iteration_tokens_total": "step",
}
