"""PyTorch through transformers' generate():  ask_torch.py THREADS MODEL_DIR"""
import sys
import time

import asked


def start():
    threads, model = int(sys.argv[1]), sys.argv[2]
    import torch
    import transformers

    torch.set_num_threads(threads)
    network = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16).eval()
    network.generation_config.eos_token_id = None  # answers have the length that was asked for
    settings = {"version": f"torch {torch.__version__}, transformers {transformers.__version__}", "dtype": "bfloat16",
                "threads": threads, "attention": network.config._attn_implementation,
                "serves_not": "generate() takes its prompts together or not at all"}

    class Clock(transformers.StoppingCriteria):
        """Is asked after each token of all answers whether they are done."""

        def __init__(self):
            self.times, self.began = [], time.perf_counter()

        def __call__(self, input_ids, scores, **more):
            self.times.append(time.perf_counter() - self.began)
            return torch.zeros(input_ids.shape[0], dtype=torch.bool)

    def answer(prompts, tokens):
        ids = torch.tensor(prompts)
        clock = Clock()
        with torch.inference_mode():
            network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
                             pad_token_id=0, stopping_criteria=transformers.StoppingCriteriaList([clock]))
        return [clock.times] * len(prompts)

    return settings, answer


if __name__ == "__main__":
    sys.exit(asked.serve(start))
