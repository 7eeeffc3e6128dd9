# Speeds of the kernels beside the machine's limits: kernels_bench --help
tutti_binary(kernels_bench SOURCES kernels_bench.cc DEPS tutti_kernels CLI11::CLI11)
