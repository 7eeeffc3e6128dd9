# The price of a question to the source of guesses, where Google's library is (libbenchmark-dev): guess_bench --help
find_package(benchmark QUIET)
if(benchmark_FOUND)
  tutti_binary(guess_bench SOURCES guess_bench.cc DEPS tutti_coordinator_core benchmark::benchmark)
else()
  tutti_name_sources(guess_bench.cc)
endif()
