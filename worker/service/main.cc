// tutti-worker: serves one shard of a model to a coordinator.

#include "worker/service/worker_main.h"

int main(int argc, char** argv) { return tutti::worker::WorkerMain(argc, argv); }
