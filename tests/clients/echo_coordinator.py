"""A coordinator that says what the last message tells it to, so that any text goes through real gateways, parsers and streams.

The message is JSON: {"say": TEXT, "cut": characters in each message of the stream, "in_reasoning": whether the prompt ends in a
thought, "open": the stream breaks off behind the text, so that nothing follows but an error}.
"""
import concurrent.futures
import json
import os
import sys

import grpc

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "proto"))
PROTOS, SERVICES = grpc.protos_and_services("tutti/v1/generation.proto")
MODEL = "echo"


class Echo(SERVICES.InferenceServicer):
    def GetModel(self, request, context):
        return PROTOS.GetModelResponse(name=MODEL, architecture="Echo", fingerprint="e", context_length=1 << 20, vocab_size=1 << 16, dtype="f32",
                                       numerics_class="echo", eos_token_ids=[0], exact=True, may_name_tenants=True, chat_template="")

    def Generate(self, request, context):
        told = json.loads(request.chat.messages[-1].content)
        text, cut = told["say"], told.get("cut") or max(1, len(told["say"]))
        started = PROTOS.Started(resume_token=b"r", prompt_tokens=1, model_fingerprint="e", numerics_class="echo",
                                 in_reasoning=told.get("in_reasoning", False))
        yield PROTOS.GenerateResponse(started=started)
        count = 0
        for begin in range(0, len(text), cut):
            yield PROTOS.GenerateResponse(index=count, text=text[begin:begin + cut], tokens=[PROTOS.OutputToken(id=7)])
            count += 1
        if told.get("open"):
            context.abort(grpc.StatusCode.INTERNAL, "nothing follows")
        yield PROTOS.GenerateResponse(index=count, finish=PROTOS.Finish(
            reason=PROTOS.FINISH_REASON_STOP, usage=PROTOS.Usage(prompt_tokens=1, completion_tokens=count), seed=1))


def serve():
    """(the server, its address)."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    SERVICES.add_InferenceServicer_to_server(Echo(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"
