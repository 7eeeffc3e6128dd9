// The conditions that must hold of a simulated cluster when all its requests have ended: everything
// has been given back, and what the engine has counted is what its clients have.
//
// Thread: one.
#pragma once

#include <functional>
#include <string>

#include "tests/support/sim_clients.h"
#include "tests/support/sim_report.h"
#include "tests/support/sim_worker.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::tests {

// Adds what the status counts to the report.
void CheckQuiet(const v1::GetStatusResponse& status, const SimClients& clients,
                const std::function<const SimWorker*(const std::string&)>& find_worker,
                SimReport* report, const std::function<void(const std::string&)>& fail);

}  // namespace tutti::tests
