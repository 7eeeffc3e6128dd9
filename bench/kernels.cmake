# Speeds of the kernels beside the machine's limits: kernels_bench --help
tutti_binary(kernels_bench SOURCES kernels_bench.cc DEPS tutti_flags tutti_kernels)
# Products of one shape on one device, for tools/gpu_check: products_bench --help
tutti_binary(products_bench SOURCES products_bench.cc DEPS tutti_flags tutti_kernels nlohmann_json::nlohmann_json)
# Attention of one layer on one device, likewise: attention_bench --help
tutti_binary(attention_bench SOURCES attention_bench.cc DEPS tutti_flags tutti_kernels nlohmann_json::nlohmann_json)

# Times of the kernels of a program on a GPU (kernel_times.cc), where CUPTI is: in CUDA's toolkit, or in the package
# nvidia-cuda-cupti, whose folder CUPTI_ROOT names.
tutti_name_sources(kernel_times.cc)
if(TUTTI_CUDA_INCLUDE)
  set(cupti ${TUTTI_CUDA_INCLUDE}/../extras/CUPTI)
  find_path(CUPTI_INCLUDE_DIR cupti.h HINTS ${CUPTI_ROOT}/include ${cupti}/include)
  find_library(CUPTI_LIBRARY NAMES cupti libcupti.so.13 HINTS ${CUPTI_ROOT}/lib ${cupti}/lib64)
  if(CUPTI_INCLUDE_DIR AND CUPTI_LIBRARY)
    add_library(kernel_times MODULE kernel_times.cc)
    target_include_directories(kernel_times PRIVATE ${PROJECT_SOURCE_DIR})
    target_include_directories(kernel_times SYSTEM PRIVATE ${CUPTI_INCLUDE_DIR} ${TUTTI_CUDA_INCLUDE})
    target_link_libraries(kernel_times PRIVATE ${CUPTI_LIBRARY} -static-libstdc++ -static-libgcc)
    set_target_properties(kernel_times PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  endif()
endif()
