"""What routers do that speak vLLM's engine protocol, against the gateway at the address given: a client made here from the
published interface, held to the ids and ends that tutti.v1 has. A line for each check: "ok NAME" or "FAILED NAME: why"."""
import importlib
import os
import sys
import tempfile
import threading

import grpc
from grpc_tools import protoc

from checking import check, main

GRPC = sys.argv[2]
HERE = os.path.dirname(os.path.abspath(__file__))
OURS = os.path.join(HERE, "..", "..", "proto")
PATIENCE_S = 60
# Written from the interface that routers have, not from ours: numbers and types must meet on the wire.
THEIRS = """
syntax = "proto3";
package vllm.grpc.engine;
service VllmEngine {
  rpc Generate(GenerateRequest) returns (stream GenerateResponse);
  rpc Embed(EmbedRequest) returns (EmbedResponse);
  rpc HealthCheck(HealthCheckRequest) returns (HealthCheckResponse);
  rpc Abort(AbortRequest) returns (AbortResponse);
  rpc GetModelInfo(GetModelInfoRequest) returns (GetModelInfoResponse);
  rpc GetServerInfo(GetServerInfoRequest) returns (GetServerInfoResponse);
  rpc GetLoads(GetLoadsRequest) returns (GetLoadsResponse);
}
message SamplingParams {
  optional float temperature = 1; float top_p = 2; uint32 top_k = 3; float min_p = 4;
  float frequency_penalty = 5; float presence_penalty = 6; float repetition_penalty = 7;
  optional uint32 max_tokens = 8; uint32 min_tokens = 9;
  repeated string stop = 10; repeated uint32 stop_token_ids = 11;
  bool skip_special_tokens = 12; bool spaces_between_special_tokens = 13; bool ignore_eos = 14; uint32 n = 15;
  oneof constraint {
    string json_schema = 16; string regex = 17; string grammar = 18; string structural_tag = 19; bool json_object = 20;
    ChoiceConstraint choice = 21;
  }
  optional int32 logprobs = 22; optional int32 prompt_logprobs = 23; optional int32 seed = 24;
  bool include_stop_str_in_output = 25; map<int32, float> logit_bias = 26; optional int32 truncate_prompt_tokens = 27;
}
message ChoiceConstraint { repeated string choices = 1; }
message TokenizedInput { string original_text = 1; repeated uint32 input_ids = 2; }
message KvTransferParams { string remote_host = 1; uint32 remote_port = 2; }
message MultimodalInputs { optional uint32 im_token_id = 4; repeated string mm_hashes = 6; }
message GenerateRequest {
  string request_id = 1;
  oneof input { TokenizedInput tokenized = 2; string text = 3; }
  SamplingParams sampling_params = 4; bool stream = 5;
  KvTransferParams kv_transfer_params = 6; MultimodalInputs mm_inputs = 7;
  optional string kv_transfer_params_json = 8; optional int32 data_parallel_rank = 9;
  repeated MultimodalInputs extra_mm_inputs = 11; string of_tomorrow = 99;
}
message OutputLogProbs { repeated float token_logprobs = 1; repeated uint32 token_ids = 2; repeated TopLogProbs top_logprobs = 3; }
message TopLogProbs { repeated float values = 1; repeated uint32 token_ids = 2; }
message GenerateResponse { oneof response { GenerateStreamChunk chunk = 1; GenerateComplete complete = 2; } }
message GenerateStreamChunk {
  repeated uint32 token_ids = 1; uint32 prompt_tokens = 2; uint32 completion_tokens = 3; uint32 cached_tokens = 4;
  OutputLogProbs output_logprobs = 5; uint32 index = 7;
}
message GenerateComplete {
  repeated uint32 output_ids = 1; string finish_reason = 2; uint32 prompt_tokens = 3; uint32 completion_tokens = 4;
  uint32 cached_tokens = 5; OutputLogProbs output_logprobs = 6; uint32 index = 8;
  oneof matched_stop { uint32 matched_token_id = 10; string matched_stop_str = 11; }
}
message EmbedRequest { string request_id = 1; TokenizedInput tokenized = 2; }
message EmbedResponse { repeated float embedding = 1; }
message HealthCheckRequest {}
message HealthCheckResponse { bool healthy = 1; string message = 2; }
message AbortRequest { repeated string request_ids = 1; }
message AbortResponse {}
message GetModelInfoRequest {}
message GetModelInfoResponse {
  string model_path = 1; bool is_generation = 2; uint32 max_context_length = 3; uint32 vocab_size = 4;
  bool supports_vision = 5; string served_model_name = 6; repeated string architectures = 9;
  repeated int32 eos_token_ids = 10; int32 max_req_input_len = 13;
}
message GetServerInfoRequest {}
message GetServerInfoResponse { uint32 active_requests = 1; double uptime_seconds = 4; string server_type = 5; }
message GetLoadsRequest {}
message GetLoadsResponse {}
"""


def compile_protos(folder):
    """(their messages, their stubs, our messages, our stubs)"""
    with open(os.path.join(folder, "theirs.proto"), "w", encoding="utf-8") as file:
        file.write(THEIRS)
    for root, name in ((folder, "theirs.proto"), (OURS, "tutti/v1/grammar.proto"), (OURS, "tutti/v1/speculation.proto"),
                       (OURS, "tutti/v1/generation.proto")):
        if protoc.main(["protoc", f"-I{root}", f"--python_out={folder}", f"--grpc_python_out={folder}", name]) != 0:
            raise RuntimeError(f"{name} does not compile")
    sys.path.insert(0, folder)
    return [importlib.import_module(name) for name in
            ("theirs_pb2", "theirs_pb2_grpc", "tutti.v1.generation_pb2", "tutti.v1.generation_pb2_grpc")]


FOLDER = tempfile.TemporaryDirectory(prefix="tutti-engine-")
pb, stubs, our_pb, our_stubs = compile_protos(FOLDER.name)
CHANNEL = grpc.insecure_channel(GRPC)
ENGINE, TUTTI = stubs.VllmEngineStub(CHANNEL), our_stubs.InferenceStub(CHANNEL)
# Fields of sampling that both have, under the same names.
SAMPLES = [{"temperature": 0, "max_tokens": 30},
           {"temperature": 1.2, "seed": 9, "max_tokens": 40, "ignore_eos": True, "top_k": 20, "repetition_penalty": 1.1},
           {"temperature": 0, "max_tokens": 30, "stop": ["2"]},
           {"temperature": 1, "seed": 3, "max_tokens": 20, "logit_bias": {5: 2.0}, "min_tokens": 5, "min_p": 0.01}]


def ids_of(prompt="12+30="):
    return list(TUTTI.Tokenize(our_pb.TokenizeRequest(text=prompt), timeout=PATIENCE_S).ids)


def ask(stream, n=1, ids=None, request_id="", **sampling):
    request = pb.GenerateRequest(request_id=request_id, stream=stream,
                                 sampling_params=pb.SamplingParams(n=n, **sampling))
    if ids is None:
        request.text = "12+30="
    else:
        request.tokenized.input_ids.extend(ids)
    return ENGINE.Generate(request, timeout=PATIENCE_S)


def by_tutti(n=1, logprobs=None, **sampling):
    """By output: (ids, log-probabilities, text, its end)"""
    # What this protocol does not set is neutral, whatever the model's own defaults are.
    neutral = {"top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1, "skip_special_tokens": False, **sampling}
    if logprobs is not None:
        neutral.update(logprobs=True, top_logprobs=logprobs)
    outputs = {}
    for message in TUTTI.Generate(our_pb.GenerateRequest(text="12+30=", n=n, sampling=neutral), timeout=PATIENCE_S):
        ids, likely, text, ends = outputs.setdefault(message.output, ([], [], [], []))
        ids += [token.id for token in message.tokens]
        likely += [token.logprob for token in message.tokens]
        text.append(message.text)
        if message.HasField("finish"):
            ends.append(message.finish)
    return outputs


def by_engine(stream, **fields):
    """By output: (ids, log-probabilities, its end)"""
    outputs = {}
    for message in ask(stream, **fields):
        part = message.chunk if message.HasField("chunk") else message.complete
        ids, likely, ends = outputs.setdefault(part.index, ([], [], []))
        ids += list(part.token_ids if message.HasField("chunk") else part.output_ids)
        likely += list(part.output_logprobs.token_logprobs)
        assert stream or message.HasField("complete")
        if message.HasField("complete"):
            ends.append(part)
        else:
            assert part.completion_tokens == len(part.token_ids)
    return outputs


def refused(function, code, words):
    try:
        list(function())
    except grpc.RpcError as error:
        assert error.code() == code and words in error.details(), error
        return
    raise AssertionError(f"it was taken: no {words}")


@check
def what_the_answer_may_be():
    for ours, theirs in [({"regex": "[1-9][0-9]{2}"}, {"regex": "[1-9][0-9]{2}"}),
                         ({"json_schema": '{"enum": ["a", "b"]}'}, {"json_schema": '{"enum": ["a", "b"]}'}),
                         ({"ebnf": 'root ::= "x" "y"?'}, {"grammar": 'root ::= "x" "y"?'}),
                         ({"choice": {"texts": ["no", "yes"]}}, {"choice": pb.ChoiceConstraint(choices=["no", "yes"])})]:
        sampling = {"temperature": 1, "seed": 5, "max_tokens": 20}
        request = our_pb.GenerateRequest(text="12+30=", grammar=ours, sampling={
            **sampling, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1, "skip_special_tokens": False})
        expected = [token.id for message in TUTTI.Generate(request, timeout=PATIENCE_S) for token in message.tokens]
        for stream in (True, False):
            assert by_engine(stream, **sampling, **theirs)[0][0] == expected, theirs


@check
def ids_are_those_of_tutti():
    for sampling in SAMPLES:
        for fields in (sampling, {**sampling, "n": 3, "logprobs": 2}):
            expected = by_tutti(**fields)
            for stream in (True, False):
                said = by_engine(stream, **fields)
                assert sorted(said) == sorted(expected)
                for output, (ids, likely, _, ends) in expected.items():
                    assert said[output][0] == ids, (fields, stream, said[output][0], ids)
                    assert said[output][1] == (likely if "logprobs" in fields else [])
                    end, = said[output][2]
                    assert end.finish_reason == {1: "stop", 2: "length"}[ends[0].reason]
                    assert end.matched_stop_str == ends[0].stop
                    assert end.completion_tokens == len(ids) == ends[0].usage.completion_tokens
                    assert end.prompt_tokens > 0


@check
def text_is_that_of_the_ids():
    ids = by_engine(True, temperature=0, max_tokens=30)[0][0]
    text = TUTTI.Detokenize(our_pb.DetokenizeRequest(ids=ids), timeout=PATIENCE_S).text
    whole = "".join(by_tutti(temperature=0, max_tokens=30, skip_special_tokens=True)[0][2])
    assert text == whole, (text, whole)


@check
def prompts_of_ids():
    assert by_engine(True, ids=ids_of(), temperature=0, max_tokens=20) == \
        by_engine(True, temperature=0, max_tokens=20)


@check
def alternatives():
    complete = list(ask(False, temperature=0, max_tokens=4, logprobs=3))[0].complete
    assert len(complete.output_logprobs.top_logprobs) == len(complete.output_ids)
    assert all(len(top.token_ids) == len(top.values) == 3 for top in complete.output_logprobs.top_logprobs)
    assert complete.output_logprobs.top_logprobs[0].token_ids[0] == complete.output_ids[0]


@check
def what_routers_ask_first():
    assert ENGINE.HealthCheck(pb.HealthCheckRequest(), timeout=PATIENCE_S).healthy
    model = ENGINE.GetModelInfo(pb.GetModelInfoRequest(), timeout=PATIENCE_S)
    ours = TUTTI.GetModel(our_pb.GetModelRequest(), timeout=PATIENCE_S)
    assert model.served_model_name == ours.name == "demo" and model.is_generation and not model.supports_vision
    assert (model.max_context_length, model.vocab_size) == (ours.context_length, ours.vocab_size)
    assert list(model.eos_token_ids) == list(ours.eos_token_ids)
    server = ENGINE.GetServerInfo(pb.GetServerInfoRequest(), timeout=PATIENCE_S)
    assert server.server_type == "vllm-grpc" and server.uptime_seconds > 0
    for method, request in (("Embed", pb.EmbedRequest(request_id="a")), ("GetLoads", pb.GetLoadsRequest())):
        refused(lambda: [getattr(ENGINE, method)(request, timeout=PATIENCE_S)], grpc.StatusCode.UNIMPLEMENTED,
                f"{method} is not served here")


@check
def refusals():
    bad = grpc.StatusCode.INVALID_ARGUMENT
    for fields in ({"regex": "a("}, {"json_schema": '{"not": {}}'}, {"structural_tag": "{}"},
                   {"prompt_logprobs": 1}, {"logprobs": -1}, {"temperature": -1}, {"max_tokens": 99999},
                   {"stop": ["x" * 2000]}, {"n": 65}, {"truncate_prompt_tokens": -1}, {"logprobs": 21}):
        refused(lambda: ask(True, **fields), bad, f"sampling_params.{next(iter(fields))}")
    refused(lambda: ask(True, ids=[1, 2 ** 31]), bad, "tokenized.input_ids[1]")
    refused(lambda: ask(True, ids=[1, 10 ** 6]), bad, "tokenized.input_ids[1]")
    refused(lambda: ENGINE.Generate(pb.GenerateRequest()), bad, "one of tokenized and text")
    for fields in ({"mm_inputs": pb.MultimodalInputs()}, {"kv_transfer_params_json": "{}"}, {"data_parallel_rank": 1},
                   {"kv_transfer_params": pb.KvTransferParams(remote_host="a")}):
        refused(lambda: ENGINE.Generate(pb.GenerateRequest(text="a", **fields)), bad, next(iter(fields)))
    refused(lambda: ENGINE.Generate(pb.GenerateRequest(text="a", of_tomorrow="a")), bad, "field 99")


@check
def aborts():
    stream = ask(True, n=2, request_id="long", temperature=1, max_tokens=1500, ignore_eos=True)
    next(stream)
    ENGINE.Abort(pb.AbortRequest(request_ids=["none", "long"]), timeout=PATIENCE_S)
    ends = [message.complete for message in stream if message.HasField("complete")]
    assert sorted(end.index for end in ends) == [0, 1] and {end.finish_reason for end in ends} == {"abort"}
    assert all(end.completion_tokens < 1500 for end in ends)


@check
def streams_that_are_left():
    for _ in range(100):
        stream = ask(True, temperature=1, max_tokens=1500, ignore_eos=True)
        next(stream)
        stream.cancel()
    assert by_engine(True, temperature=0, max_tokens=5)[0][0]


@check
def many_at_once():
    expected = by_tutti(temperature=0, max_tokens=24)[0][0]
    said = [None] * 32

    def one(i):
        said[i] = by_engine(i % 2 == 0, temperature=0, max_tokens=24)[0][0]
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(said))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [expected] * len(said)


if __name__ == "__main__":
    sys.exit(main())
