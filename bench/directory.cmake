# Prefix reuse on recorded loads: its own library, so that it can be used without workers.
tutti_library(directory_bench
  SOURCES directory_bench.cc trace.cc trace_cache.cc
  DEPS tutti_coordinator_core absl::str_format nlohmann_json::nlohmann_json)

tutti_test(directory_bench_test SOURCES directory_bench_test.cc DEPS tutti_directory_bench)
