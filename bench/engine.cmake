# The engine: its own library, so that it can be used without workers.
tutti_library(engine_bench
  SOURCES engine_bench.cc synthetic_cluster.cc
  DEPS tutti_coordinator_core tutti_coordinator_metrics absl::str_format)

tutti_test(engine_bench_test SOURCES engine_bench_test.cc DEPS tutti_engine_bench)
