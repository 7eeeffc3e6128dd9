// The program tutti-worker: flags, signals, and a Worker until it is told to end.
//
// Thread: main's, before any other exists.
#pragma once

namespace tutti::worker {

// Returns the program's exit code.
int WorkerMain(int argc, char** argv);

}  // namespace tutti::worker
