// A whole cluster in one thread under virtual time: the real engine, real stage workers with oracle
// stages, clients that know the right answers, links that delay and break, processes that die and
// hang; all from one seed.
//
// It watches that every request ends once, with the right tokens, each once, in order; that every
// plan is one that can be run; that the engine never goes to sleep over work it could do; that no
// healthy worker is sent away; that everything is given back in the end; and that it ends.
#pragma once

#include "tests/support/sim_options.h"
#include "tests/support/sim_report.h"

namespace tutti::tests {

SimReport RunSimulation(const SimOptions& options);

}  // namespace tutti::tests
