# Guesses on answers that are known: the scheduler and a worker's forward pass, without links.
tutti_library(speculation_bench
  SOURCES speculation_bench.cc speculation_script.cc
  DEPS tutti_coordinator_core tutti_worker_core tutti_text nlohmann_json::nlohmann_json)
