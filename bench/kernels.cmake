# Speeds of the kernels beside the machine's limits: kernels_bench --help
tutti_binary(kernels_bench SOURCES kernels_bench.cc DEPS tutti_flags tutti_kernels)
# Products of one shape on one device, for tools/gpu_check: products_bench --help
tutti_binary(products_bench SOURCES products_bench.cc DEPS tutti_flags tutti_kernels nlohmann_json::nlohmann_json)
