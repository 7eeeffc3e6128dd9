"""OpenVINO GenAI through its pipeline of continuous batches:  ask_openvino.py THREADS FOLDER

FOLDER holds the model as optimum-intel exports it.
"""
import os
import sys
import time

import asked

KV_GB = 2
ONE_PROMPT_MAX = 1 << 16


def start():
    threads, folder = int(sys.argv[1]), sys.argv[2]
    if not os.path.isfile(os.path.join(folder, "openvino_model.xml")):
        raise FileNotFoundError(f"no openvino_model.xml in {folder}: optimum-cli export openvino --model MODEL_DIR --task "
                                f"text-generation-with-past --weight-format fp16 {folder}")
    import numpy
    import openvino
    import openvino_genai

    properties = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "bf16"}

    def pipeline(rows_of_a_step=None):
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = KV_GB
        if rows_of_a_step is not None:
            scheduler.max_num_batched_tokens = rows_of_a_step
        return openvino_genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", properties), scheduler.max_num_batched_tokens

    # One prompt is taken whole, as LLMPipeline does; several in the steps that a service of this library has by default.
    one, several = pipeline(ONE_PROMPT_MAX), pipeline()
    settings = {"version": f"openvino {openvino.__version__}, genai {openvino_genai.__version__}", **properties,
                "max_num_batched_tokens": {"one prompt": one[1], "several": several[1]}, "kv_cache": "the library's default"}
    number = 0

    def answer(prompts, tokens):
        nonlocal number
        how = openvino_genai.GenerationConfig(max_new_tokens=tokens, ignore_eos=True, do_sample=False)
        inputs = [openvino.Tensor(numpy.array([ids], dtype=numpy.int64)) for ids in prompts]
        began = time.perf_counter()
        engine, handles = (one if len(prompts) == 1 else several)[0], []
        for ids in inputs:
            number += 1
            handles.append(engine.add_request(number, ids, how))
        times = [[] for _ in handles]
        while engine.has_non_finished_requests():
            engine.step()
            now = time.perf_counter() - began
            for handle, of_one in zip(handles, times):
                if handle.can_read():
                    for output in handle.read().values():
                        of_one += [now] * len(output.generated_ids)
        return times

    return settings, answer


if __name__ == "__main__":
    sys.exit(asked.serve(start))
