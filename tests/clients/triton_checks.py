"""What users of Triton's client do over gRPC, against the gateway at the address given: requests whole and streamed, many on
one stream, errors inside it, and what load generators ask first. A line for each check: "ok NAME" or "FAILED NAME: why"."""
import json
import queue
import sys
import urllib.request

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from checking import check, main

URL, GRPC = sys.argv[1], sys.argv[2]
PROMPT = "12+30="
PATIENCE_S = 60


def tensor(name, value, kind):
    value = value if isinstance(value, list) else [value]
    if kind == "BYTES":
        array = np.array([text.encode() for text in value], dtype=np.object_)
    else:
        array = np.array(value, dtype={"BOOL": bool, "INT32": np.int32, "FP32": np.float32, "UINT64": np.uint64}[kind])
    given = triton.InferInput(name, [len(value)], kind)
    given.set_data_from_numpy(array)
    return given


def of_vllm(prompt=PROMPT, stream=False, more=(), **sampling):
    """The tensors of Triton's vLLM backend; numbers as texts, as perf_analyzer writes them."""
    sampling = {name: value if isinstance(value, (list, dict)) else str(value) for name, value in sampling.items()}
    return [tensor("text_input", prompt, "BYTES"), tensor("stream", stream, "BOOL"),
            tensor("exclude_input_in_output", True, "BOOL"),
            tensor("sampling_parameters", json.dumps(sampling), "BYTES"), *more]


def of_ensemble(prompt=PROMPT, stream=False, **fields):
    """The tensors of TensorRT-LLM's ensemble."""
    kinds = {int: "INT32", float: "FP32", bool: "BOOL", list: "BYTES"}
    return [tensor("text_input", prompt, "BYTES"), tensor("stream", stream, "BOOL"),
            tensor("exclude_input_in_output", True, "BOOL"),
            *(tensor(name, value, kinds[type(value)]) for name, value in fields.items())]


def texts(result, name="text_output"):
    return [text.decode() for text in result.as_numpy(name)]


def openai(prompt=PROMPT, **fields):
    """The text that /v1/completions has."""
    body = json.dumps({"prompt": prompt, "temperature": 0, **fields}).encode()
    request = urllib.request.Request(URL + "/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return [choice["text"] for choice in json.load(answer)["choices"]]


class Stream:
    """A client with an open stream."""

    def __enter__(self):
        self.client = triton.InferenceServerClient(GRPC)
        self.said = queue.Queue()
        self.client.start_stream(lambda result, error: self.said.put((result, error)))
        return self

    def __exit__(self, *_):
        self.client.stop_stream(cancel_requests=True)
        self.client.close()

    def ask(self, inputs, name, **how):
        self.client.async_stream_infer("demo", inputs, request_id=name, **how)

    def next(self):
        """(result, error)"""
        return self.said.get(timeout=PATIENCE_S)

    def whole(self, names):
        """By name: the texts that came, and the responses, until each had its last."""
        said = {name: [] for name in names}
        left = set(names)
        while left:
            result, error = self.next()
            assert error is None, error
            response = result.get_response()
            said[response.id].append(result)
            if response.parameters["triton_final_response"].bool_param:
                left.remove(response.id)
        return {name: ("".join(texts(r)[0] for r in results if r.as_numpy("text_output") is not None), results)
                for name, results in said.items()}


def refused(function, words):
    try:
        function()
    except InferenceServerException as error:
        assert words in error.message(), error
        return error
    raise AssertionError(f"it was taken: no {words}")


CLIENT = triton.InferenceServerClient(GRPC)


@check
def health_and_metadata():
    assert CLIENT.is_server_live() and CLIENT.is_server_ready() and CLIENT.is_model_ready("demo")
    assert not CLIENT.is_model_ready("other")
    assert CLIENT.get_server_metadata().name == "tutti"
    metadata = CLIENT.get_model_metadata("demo")
    assert metadata.inputs[0].name == "text_input" and metadata.inputs[0].datatype == "BYTES"
    assert [o.name for o in metadata.outputs][0] == "text_output"
    config = CLIENT.get_model_config("demo").config
    assert config.model_transaction_policy.decoupled
    assert {i.name for i in config.input if not i.optional} == {"text_input"}
    assert [m.name for m in CLIENT.get_model_repository_index().models] == ["demo"]
    refused(lambda: CLIENT.get_model_metadata("other"), "demo")
    refused(lambda: CLIENT.load_model("demo"), "RepositoryModelLoad is not served here")
    refused(lambda: CLIENT.unload_model("demo"), "RepositoryModelUnload is not served here")
    refused(CLIENT.get_system_shared_memory_status, "SystemSharedMemoryStatus is not served here")


@check
def whole_answers():
    expected = openai(max_tokens=20)
    assert texts(CLIENT.infer("demo", of_vllm(temperature=0, max_tokens=20), request_id="9")) == expected
    result = CLIENT.infer("demo", of_ensemble(temperature=0.0, max_tokens=20), request_id="9")
    assert texts(result) == expected and result.get_response().id == "9"
    echoed = [tensor("text_input", PROMPT, "BYTES"), tensor("max_tokens", 20, "INT32"), tensor("temperature", 0.0, "FP32")]
    assert texts(CLIENT.infer("demo", echoed)) == [PROMPT + expected[0]]
    stopped = CLIENT.infer("demo", of_ensemble(temperature=0.0, max_tokens=20, stop_words=["2"]))
    assert texts(stopped) == openai(max_tokens=20, stop=["2"])
    drawn = of_vllm(temperature=1, seed=5, n=3, max_tokens=12, ignore_eos="true")
    assert texts(CLIENT.infer("demo", drawn)) == openai(temperature=1, seed=5, n=3, max_tokens=12, ignore_eos=True)


@check
def other_outputs():
    more = [tensor(f"return_{name}", True, "BOOL") for name in
            ("finish_reason", "logprobs", "cumulative_logprob", "num_input_tokens", "num_output_tokens")]
    result = CLIENT.infer("demo", of_vllm(temperature=0, max_tokens=4, ignore_eos="true", logprobs=2, more=more))
    assert texts(result, "finish_reason") == ["length"]
    assert result.as_numpy("num_output_tokens").tolist() == [4] and result.as_numpy("num_input_tokens")[0] > 0
    logprobs = json.loads(texts(result, "logprobs")[0])
    assert len(logprobs) == 4 and all(2 <= len(token) <= 3 for token in logprobs)
    total = sum(next(iter(token.values()))["logprob"] for token in logprobs)
    assert abs(total - result.as_numpy("cumulative_logprob")[0]) < 1e-3
    wanted = [triton.InferRequestedOutput("finish_reason")]
    only = CLIENT.infer("demo", of_vllm(max_tokens=2, temperature=0), outputs=wanted)
    assert [o.name for o in only.get_response().outputs] == ["finish_reason"]


@check
def what_the_answer_may_be():
    schema = {"type": "object", "properties": {"sum": {"type": "integer", "minimum": 10, "maximum": 99}, "exact": {"type": "boolean"}},
              "required": ["sum", "exact"], "additionalProperties": False}
    for outputs in ({"structured_outputs": {"json": schema}}, {"guided_decoding": {"json": schema}},
                    {"structured_outputs": json.dumps({"json": schema})}):
        told = json.loads(texts(CLIENT.infer("demo", of_vllm(temperature=1, max_tokens=200, **outputs)))[0])
        assert list(told) == ["sum", "exact"] and 10 <= told["sum"] <= 99, told
    guided = of_ensemble(max_tokens=60) + [tensor("guided_decoding_guide_type", "regex", "BYTES"),
                                           tensor("guided_decoding_guide", "[a-c]{3}!", "BYTES")]
    assert texts(CLIENT.infer("demo", guided))[0].rstrip("!").strip("abc") == ""
    refused(lambda: CLIENT.infer("demo", of_vllm(structured_outputs={"json": {"not": {}}})),
            "sampling_parameters.structured_outputs.json")


@check
def streams():
    expected = openai(max_tokens=40, ignore_eos=True)[0]
    with Stream() as stream:
        stream.ask(of_vllm(stream=True, temperature=0, max_tokens=40, ignore_eos="true"), "a")
        text, results = stream.whole(["a"])["a"]
        assert text == expected and len(results) > 5, (text, expected)
        stream.ask(of_ensemble(stream=False, temperature=0.0, max_tokens=40, end_id=1048576), "whole")
        text, results = stream.whole(["whole"])["whole"]
        assert text == expected and len(results) == 1


@check
def many_on_one_stream():
    prompts = {str(i): f"{i}+{i + 7}=" for i in range(48)}
    with Stream() as stream:
        for name, prompt in prompts.items():
            stream.ask(of_vllm(prompt, stream=True, temperature=0, max_tokens=16, ignore_eos="true"), name)
        said = stream.whole(prompts)
    for name in ("0", "23", "47"):
        assert said[name][0] == openai(prompts[name], max_tokens=16, ignore_eos=True)[0], name


@check
def an_empty_final_response():
    with Stream() as stream:
        stream.ask(of_vllm(stream=True, temperature=0, max_tokens=5), "a", enable_empty_final_response=True)
        results = stream.whole(["a"])["a"][1]
    assert [len(r.get_response().outputs) for r in results[-2:]] == [1, 0]
    finals = [r.get_response().parameters["triton_final_response"].bool_param for r in results]
    assert finals == [False] * (len(results) - 1) + [True]


@check
def errors_in_an_open_stream():
    with Stream() as stream:
        stream.ask(of_vllm(temperature=-1), "bad")
        assert "sampling_parameters.temperature is -1" in stream.next()[1].message()
        stream.ask(of_vllm(no_such_field=1), "unknown")
        assert "sampling_parameters.no_such_field" in stream.next()[1].message()
        stream.client.async_stream_infer("other", of_vllm(max_tokens=1), request_id="model")
        assert "demo" in stream.next()[1].message()
        stream.ask(of_vllm(stream=True, temperature=0, max_tokens=20), "good")
        assert stream.whole(["good"])["good"][0] == openai(max_tokens=20)[0]


@check
def refusals():
    refused(lambda: CLIENT.infer("demo", of_vllm(prompt_logprobs=1)), "sampling_parameters.prompt_logprobs ")
    refused(lambda: CLIENT.infer("demo", of_ensemble(beam_width=2, max_tokens=1)), "beam_width ")
    refused(lambda: CLIENT.infer("demo", of_ensemble(max_tokens=999999)), "max_tokens is 999999")
    refused(lambda: CLIENT.infer("demo", of_ensemble(stop_words=["x" * 2000])), "stop_words[0]")
    refused(lambda: CLIENT.infer("demo", [tensor("prompt", "a", "BYTES")]), "prompt is no input tensor")
    error = refused(lambda: CLIENT.infer("other", of_vllm()), "demo")
    assert "NOT_FOUND" in error.status()


@check
def a_stream_that_is_left():
    """Its requests end with it: many times more than there is room for."""
    for _ in range(20):
        with Stream() as stream:
            for name in range(16):
                stream.ask(of_vllm(stream=True, max_tokens=1500, ignore_eos="true"), str(name))
            stream.next()
    assert texts(CLIENT.infer("demo", of_vllm(temperature=0, max_tokens=20))) == openai(max_tokens=20)


@check
def statistics():
    before = CLIENT.get_inference_statistics("demo").model_stats[0]
    CLIENT.infer("demo", of_vllm(max_tokens=3))
    after = CLIENT.get_inference_statistics().model_stats[0]
    assert after.inference_count == before.inference_count + 1
    assert after.inference_stats.compute_infer.ns > before.inference_stats.compute_infer.ns
    assert after.inference_stats.success.ns > after.inference_stats.compute_infer.ns


if __name__ == "__main__":
    sys.exit(main())
