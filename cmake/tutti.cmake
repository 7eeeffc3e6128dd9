# Helpers that keep every folder's CMakeLists.txt to a few lines.
#
#   tutti_library(base SOURCES a.cc b.cc DEPS absl::status)      -> target tutti_base
#   tutti_testing_library(base_testing SOURCES a.cc DEPS tutti_base)   code of several tests: built where a test needs it
#   tutti_binary(tutti-worker SOURCES main.cc DEPS tutti_worker)
#   tutti_fail_points(base SOURCES b.cc)                  sources with fail points     -> target tutti_base_fail_points
#   tutti_test(base_test SOURCES x_test.cc DEPS tutti_base [LABELS slow] [TIMEOUT seconds] [OPTIMISED])
#   tutti_test(other_test SAME_AS base_test DEPS tutti_other)    the objects of other tests, linked with something else
#
# A library, binary or test may say SHELL: many of its files see gRPC, and are compiled with its headers precompiled.
#
# A test's own code is compiled without optimisation in the preset release; OPTIMISED where that would cost more than it saves.
# All paths in #include lines start at the repository root.
include(${CMAKE_CURRENT_LIST_DIR}/named_sources.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/precompiled.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/united.cmake)

function(tutti_library name)
  cmake_parse_arguments(ARG "SHELL" "" "SOURCES;DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(tutti_${name} STATIC ${ARG_SOURCES})
    tutti_wants_precompiled(tutti_${name} ${ARG_SHELL})
    set(kind PUBLIC)
  else()
    add_library(tutti_${name} INTERFACE)
    set(kind INTERFACE)
  endif()
  target_include_directories(tutti_${name} ${kind} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(tutti_${name} ${kind} ${ARG_DEPS})
endfunction()

function(tutti_testing_library name)
  cmake_parse_arguments(ARG "SHELL" "" "SOURCES;DEPS" ${ARGN})
  tutti_name_sources(${ARG_SOURCES})
  if(TUTTI_BUILD_TESTS)
    tutti_library(${name} ${ARGN})
    set_target_properties(tutti_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# Those sources of tutti_NAME that have fail points (base/fail_point.h), compiled with them.
# A test that links this target gets them in the place of the library's own; the rest of the library comes with it.
function(tutti_fail_points name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  if(NOT TUTTI_BUILD_TESTS)
    return()
  endif()
  add_library(tutti_${name}_fail_points OBJECT EXCLUDE_FROM_ALL ${ARG_SOURCES})
  tutti_wants_precompiled(tutti_${name}_fail_points)
  target_compile_definitions(tutti_${name}_fail_points PRIVATE TUTTI_FAILPOINTS=1)
  target_link_libraries(tutti_${name}_fail_points PUBLIC tutti_${name})
endfunction()

function(tutti_binary name)
  cmake_parse_arguments(ARG "SHELL" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  tutti_wants_precompiled(${name} ${ARG_SHELL})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

# Properties of every test: the repository root in TUTTI_SOURCE_DIR, the build folder in TUTTI_BINARY_DIR,
# real data in TUTTI_TESTDATA where the caller's environment gives it, and `timeout` seconds,
# or five times as many under sanitizers and without optimisation, which tests that promise a time find in TUTTI_TEST_SLOWNESS.
function(tutti_test_properties name timeout)
  set(slow OFF)
  if(TUTTI_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(slow ON)
    math(EXPR timeout "${timeout} * 5")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout}
    ENVIRONMENT "TUTTI_SOURCE_DIR=${PROJECT_SOURCE_DIR};TUTTI_BINARY_DIR=${PROJECT_BINARY_DIR}")
  if(slow)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT TUTTI_TEST_SLOWNESS=5)
  endif()
  if(TUTTI_SANITIZE MATCHES "address")
    set(lsan suppressions=${PROJECT_SOURCE_DIR}/tests/lsan_suppressions.txt:print_suppressions=0)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT_MODIFICATION LSAN_OPTIONS=set:${lsan})
  endif()
  if(TUTTI_SANITIZE STREQUAL "thread")
    set(tsan ignore_noninstrumented_modules=1:suppressions=${PROJECT_SOURCE_DIR}/tests/tsan_suppressions.txt)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT_MODIFICATION TSAN_OPTIONS=set:${tsan})
  endif()
endfunction()

function(tutti_test name)
  cmake_parse_arguments(ARG "OPTIMISED;SHELL" "TIMEOUT" "SOURCES;SAME_AS;DEPS;LABELS" ${ARGN})
  tutti_name_sources(${ARG_SOURCES})
  if(NOT TUTTI_BUILD_TESTS)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(objects ${ARG_SAME_AS})
  list(TRANSFORM objects REPLACE ".+" "$<TARGET_OBJECTS:\\0>")
  add_executable(${name} ${ARG_SOURCES} ${objects})
  if(ARG_SOURCES)
    tutti_wants_precompiled(${name} ${ARG_SHELL})
    if(NOT ARG_OPTIMISED)
      target_compile_options(${name} PRIVATE ${TUTTI_TEST_OPTIONS})
    endif()
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  tutti_test_properties(${name} ${ARG_TIMEOUT})
endfunction()
