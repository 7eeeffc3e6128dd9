#!/usr/bin/env python3
"""What the gateway adds to a stream, by hand: the same requests over gRPC and over HTTP, in turn, with 1, 8 and 64 streams
at once. Time to the first token, gaps between tokens, and the gateway's share of a core.

    tests/e2e/gateway_cost.py [--streams 1,8,64] [--tokens 200] [--rounds 6] [--json]

Both sides are read by this process with Debian's python3-grpcio and by raw sockets, which cost it about the same; differences of
medians are the gateway's, and that of reading HTTP in Python rather than gRPC.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import grpc

from harness import SOURCE, Cluster, wait_until
from http_client import Gateway

PROMPT = "Tell me something: "


def stubs(folder):
    """The API's modules, made from its proto."""
    proto = os.path.join(SOURCE, "proto")
    subprocess.run(["protoc", f"-I{proto}", f"--python_out={folder}", "tutti/v1/grammar.proto", "tutti/v1/speculation.proto",
                    "tutti/v1/generation.proto"],
                   check=True)
    sys.path.insert(0, folder)
    from tutti.v1 import generation_pb2  # noqa: E402
    return generation_pb2


def by_grpc(address, pb, tokens, seed):
    """Arrival times of messages with tokens; the first is the beginning."""
    with grpc.insecure_channel(address) as channel:
        grpc.channel_ready_future(channel).result(timeout=10)
        call = channel.unary_stream("/tutti.v1.Inference/Generate", request_serializer=bytes,
                                    response_deserializer=pb.GenerateResponse.FromString)
        request = pb.GenerateRequest(text=PROMPT)
        request.sampling.max_tokens, request.sampling.ignore_eos, request.sampling.seed = tokens, True, seed
        times = [time.perf_counter()]
        for message in call(request.SerializeToString()):
            if message.tokens:
                times.append(time.perf_counter())
        return times


def by_http(address, tokens, seed):
    """The same of events with text."""
    body = json.dumps({"prompt": PROMPT, "max_tokens": tokens, "ignore_eos": True, "seed": seed, "stream": True,
                       "return_token_ids": False, "stream_options": {"continuous_usage_stats": True, "include_usage": True}})
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = (f"POST /v1/completions HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(body)}\r\n"
                f"Connection: close\r\n\r\n")
        times = [time.perf_counter()]
        connection.sendall((head + body).encode())
        while True:
            piece = connection.recv(1 << 16)
            if not piece:
                return times
            # Of several that came together each has come now.
            times += [time.perf_counter()] * piece.count(b'"choices":[{"index"')


def at_once(ask, streams, seed):
    results = [None] * streams

    def run(i):
        results[i] = ask(seed * 100 + i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=lambda text: [int(part) for part in text.split(",")], default=[1, 8, 64])
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    folder = tempfile.TemporaryDirectory(prefix="tutti-stubs-")
    pb = stubs(folder.name)
    cluster = Cluster("--http", "127.0.0.1:0", workers=1)
    found = []
    try:
        gateway = Gateway(cluster.http)
        wait_until(lambda: gateway.get("/health").status == 200, "the gateway is healthy")
        pid = cluster.children()["gateway"]
        ways = {"grpc": lambda seed: by_grpc(cluster.address, pb, wanted.tokens, seed),
                "http": lambda seed: by_http(cluster.http, wanted.tokens, seed)}
        for streams in wanted.streams:
            first, gaps = {way: [] for way in ways}, {way: [] for way in ways}
            spent = total = 0
            for turn in range(-1, wanted.rounds):
                for way, ask in ways.items():
                    before = cpu_seconds(pid)
                    for times in at_once(ask, streams, turn + 2):
                        if turn < 0:
                            continue  # to warm up
                        first[way].append(times[1] - times[0])
                        gaps[way] += [b - a for a, b in zip(times[1:], times[2:])]
                    if turn >= 0 and way == "http":
                        spent += cpu_seconds(pid) - before
                        total += streams * wanted.tokens
            row = {"streams": streams, "core_per_1000_tokens_s": spent / total * 1000}
            for way in ways:
                row[f"first_ms_{way}"] = statistics.median(first[way]) * 1e3
                row[f"gap_ms_{way}"] = statistics.median(gaps[way]) * 1e3
                row[f"gap_mean_ms_{way}"] = statistics.mean(gaps[way]) * 1e3
            found.append(row)
            if not wanted.json:
                print(f"{streams} streams: first token {row['first_ms_grpc']:.2f} ms by gRPC, {row['first_ms_http']:.2f} by "
                      f"HTTP; gap median {row['gap_ms_grpc']:.3f}, {row['gap_ms_http']:.3f}, mean "
                      f"{row['gap_mean_ms_grpc']:.3f}, {row['gap_mean_ms_http']:.3f} ms; gateway "
                      f"{row['core_per_1000_tokens_s'] * 100:.1f} % of a core for 1,000 tokens/s", flush=True)
        if wanted.json:
            print(json.dumps(found))
    finally:
        cluster.cleanup()
        folder.cleanup()


if __name__ == "__main__":
    main()
