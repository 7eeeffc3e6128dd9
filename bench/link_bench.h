// How fast links are: round trips, throughput, frames per second.
#pragma once

#include <cstdint>

namespace tutti::bench {

struct LinkBenchOptions {
  int round_trips = 5000;
  int64_t round_trip_payload_bytes = 2048;  // one row of 1024 bf16 values
  int chunks = 1000;                        // of transport::kPayloadChunkBytes
  int frames = 50000;                       // without payload
};

// Measures links in this process and to a child process over a unix socket and TCP on loopback, and
// prints a table. Returns an exit code.  REQUIRES: gRPC has not been used in this process, because
// it is forked.
int RunLinkBench(const LinkBenchOptions& options);

}  // namespace tutti::bench
