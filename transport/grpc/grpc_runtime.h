// Keeps gRPC's library up for as long as the process lives, and takes its log: its lines go to ours
// at level debug, unless GRPC_VERBOSITY is set.
#pragma once

#include "base/status.h"

namespace tutti::transport {

// gRPC 1.51 takes its threads down when the last channel or server that uses callbacks goes, and
// starts them again with the next. Both ways of going are harmful: if that last one goes in a
// reaction, the thread joins itself and then runs on over freed memory; if the whole library goes,
// that may wait 10 s for a thread that polls on behalf of a connection already closed. So the first
// dialer, listener or client takes a reference that is never given back.
//
// It also waits for ever for threads that the system did not let it start. RESOURCE_EXHAUSTED:
// there is no room for those that it starts at once; the next call looks again.
//
// Thread: any; not in a reaction. The first call waits for gRPC's threads to start.
absl::Status KeepGrpcRunning();

// gRPC aborts where a server of it gets no thread. RESOURCE_EXHAUSTED: there is no room for those
// of one port.  Thread: any.
absl::Status CheckRoomForPort();

// Lines of protobuf's go to our log too, at level debug, for as long as main runs.
//
// Thread: the main thread of a program of ours, before there are others.
void TakeLogOfProtobuf();

}  // namespace tutti::transport
