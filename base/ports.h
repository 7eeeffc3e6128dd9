// The ports at which the processes of a cluster over machines listen unless they are told others.
#pragma once

namespace tutti {

inline constexpr int kPublicPort = 50051;  // of the coordinator, for clients
inline constexpr int kPeerPort = 50052;    // of the coordinator, for workers
inline constexpr int kWorkerPort = 50060;  // of a worker, for other workers

}  // namespace tutti
