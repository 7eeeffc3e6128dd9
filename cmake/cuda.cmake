# The CUDA compiler, where there is one.
# The kernels are compiled by plain commands: CMake's own CUDA language would hand them the flags of the host's presets.
#
#   tutti_cuda_objects(OUT_VARIABLE TARGETS… SOURCES a.cu b.cu)    -> objects of device code, for nvcc's -gencode TARGETS
#   TUTTI_CUDA_CODE           those of TUTTI_CUDA_ARCHITECTURES
#   TUTTI_CUDA_HOPPER_CODE    compute capability 9.0 with its own instructions (wgmma)
# One by default, which shows that the kernels compile; preset cuda-all has those of every GPU that can serve.
set(TUTTI_CUDA_ARCHITECTURES "90" CACHE STRING
  "Compute capabilities of the plug-in's kernels; N-ptx is code that newer GPUs translate when it is loaded")
find_program(TUTTI_NVCC nvcc HINTS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
set(TUTTI_CUDA OFF)
if(TUTTI_NVCC AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT TUTTI_SANITIZE)
  get_filename_component(TUTTI_CUDA_ROOT ${TUTTI_NVCC} REALPATH)
  get_filename_component(TUTTI_CUDA_ROOT ${TUTTI_CUDA_ROOT}/../.. ABSOLUTE)
  find_library(TUTTI_CUDART cudart_static HINTS ${TUTTI_CUDA_ROOT}/lib64 ${TUTTI_CUDA_ROOT}/targets/x86_64-linux/lib)
  find_path(TUTTI_CUDA_INCLUDE cuda_runtime_api.h HINTS ${TUTTI_CUDA_ROOT}/include)
  if(TUTTI_CUDART AND TUTTI_CUDA_INCLUDE)
    set(TUTTI_CUDA ON)
  endif()
endif()

set(TUTTI_CUDA_CODE)
foreach(architecture ${TUTTI_CUDA_ARCHITECTURES})
  if(architecture MATCHES "^([0-9]+)-ptx$")
    list(APPEND TUTTI_CUDA_CODE -gencode=arch=compute_${CMAKE_MATCH_1},code=compute_${CMAKE_MATCH_1})
  else()
    list(APPEND TUTTI_CUDA_CODE -gencode=arch=compute_${architecture},code=sm_${architecture})
  endif()
endforeach()

set(TUTTI_CUDA_HOPPER_CODE -gencode=arch=compute_90a,code=sm_90a)

# A fused multiply-add happens only where a kernel says so (-fmad=false), as on the host:
# two kernels that compute the same sum must not be contracted differently.
function(tutti_cuda_objects variable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  set(objects)
  foreach(source ${arg_SOURCES})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${object}
      COMMAND ${TUTTI_NVCC} -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object} -ccbin ${CMAKE_CXX_COMPILER}
        -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -lineinfo ${arg_UNPARSED_ARGUMENTS} -I${PROJECT_SOURCE_DIR}
        -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wno-unknown-pragmas -MD -MF ${object}.d
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d VERBATIM
      COMMENT "CUDA ${source}")
    list(APPEND objects ${object})
  endforeach()
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()
