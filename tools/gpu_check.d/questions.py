"""The questions that gpu_check asks a cluster."""
import concurrent.futures
import json
import subprocess

# Seconds for an answer; the cluster that is asked ends with its own limit.
PATIENCE_S = 200


def ask(path):
    """Inside `tutti up --exec`: sends the questions and writes the answers."""
    with open(path, encoding="utf-8") as file:
        job = json.load(file)

    def one(prompt):
        done = subprocess.run(["tutti", "generate", "--token-ids", ",".join(map(str, prompt)), "--json", "--logprobs",
                               "--ignore-eos", "--temperature", "0", "--max-tokens", str(job["tokens"])],
                              text=True, capture_output=True, check=True, timeout=PATIENCE_S)
        tokens, logprobs = [], []
        for line in done.stdout.splitlines():
            message = json.loads(line)
            for token in message.get("tokens", []):
                tokens.append(int(token["id"]))
                logprobs.append(float(token["logprob"]))
        return tokens, logprobs

    with concurrent.futures.ThreadPoolExecutor(job["concurrency"]) as pool:
        answers = list(pool.map(one, job["prompts"]))
    status = json.loads(subprocess.run(["tutti", "status", "--json"], text=True, capture_output=True, check=True,
                                       timeout=PATIENCE_S).stdout)
    with open(job["out"], "w", encoding="utf-8") as file:
        json.dump({"answers": answers, "status": status}, file)
