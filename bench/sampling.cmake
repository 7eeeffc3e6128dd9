# From logits to tokens, with ranks that are threads of a test's: sampling_bench --help
if(TARGET tutti_worker_rank_threads_testing)
  tutti_binary(sampling_bench
    SOURCES sampling_bench.cc DEPS tutti_flags tutti_worker_core tutti_worker_rank_threads_testing)
else()
  tutti_name_sources(sampling_bench.cc)
endif()
