# Precompiled headers: the common headers of the standard library, abseil, protobuf and googletest are parsed once.
#
#   tutti_wants_precompiled(TARGET [TRUE])   TARGET is compiled with the widest header below that its links allow; TRUE
#                                            where it is a shell
#   tutti_precompile()                       does so, at the end of the root CMakeLists.txt, when all links are known
#
#   tutti_pch_core            standard library and abseil
#   tutti_pch_messages        and protobuf                (targets that link tutti_proto)
#   tutti_pch_shell           and gRPC                    (shells)
#   tutti_pch_test            core and googletest, unoptimised
#   tutti_pch_test_messages   and protobuf                (tests that link tutti_proto)
#   tutti_pch_test_shell      and gRPC                    (tests of shells)
#
# A header belongs into a list only when most files of such targets include it: each file that is compiled with it pays for the templates
# that the header's inline functions use, a fifth of the header's cost where it is parsed.
# That is why JSON and the command line parser are not here; and cores never see gRPC.
# Nor is a header of ours, messages included: whatever changes it would compile everything.
#
# Every file names the headers it needs all the same: it must compile with -DTUTTI_PCH=OFF, as clang's presets do.
#
# A precompiled header fits only compilations with the same flags.
# Therefore all targets are compiled with the same ones (-fPIC and -pthread everywhere, see the root CMakeLists.txt),
# and a file or target with flags of its own is compiled without.
# System headers are named in <>, and never by a path: the header's text must be the same in every checkout,
# or no checkout would find another's objects in ccache.
set(tutti_core_headers
  <algorithm> <array> <atomic> <bit> <chrono> <cmath> <condition_variable> <cstddef> <cstdint> <cstdio> <cstdlib>
  <cstring> <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional>
  <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <variant> <vector>
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/status/status.h> <absl/status/statusor.h>
  <absl/strings/ascii.h> <absl/strings/escaping.h> <absl/strings/match.h> <absl/strings/numbers.h>
  <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h> <absl/strings/str_split.h>
  <absl/time/time.h>)
# What the headers include that protoc writes.
set(tutti_message_headers
  <google/protobuf/arena.h> <google/protobuf/arenastring.h> <google/protobuf/extension_set.h>
  <google/protobuf/generated_enum_reflection.h> <google/protobuf/generated_message_reflection.h>
  <google/protobuf/generated_message_util.h> <google/protobuf/io/coded_stream.h> <google/protobuf/map.h>
  <google/protobuf/map_entry.h> <google/protobuf/map_field_inl.h> <google/protobuf/message.h>
  <google/protobuf/metadata_lite.h> <google/protobuf/repeated_field.h> <google/protobuf/unknown_field_set.h>)
set(tutti_shell_headers ${tutti_message_headers} <grpcpp/generic/async_generic_service.h> <grpcpp/grpcpp.h>)
set(tutti_test_headers <gmock/gmock.h> <gtest/gtest.h>)

tutti_name_sources(cmake/precompiled.cc)

# An object library of one empty file, compiled with the header that others reuse.
function(tutti_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "HEADERS;DEPS;OPTIONS")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL cmake/precompiled.cc)
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# Sets `variable` to the targets of this build that `target` links, directly or through others.
function(tutti_links_of target variable)
  set(seen)
  set(open ${target})
  while(open)
    list(POP_FRONT open next)
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(links ${next} ${property})
      foreach(link IN LISTS links)
        if(TARGET ${link} AND link MATCHES "^tutti_" AND NOT link IN_LIST seen)
          list(APPEND seen ${link})
          list(APPEND open ${link})
        endif()
      endforeach()
    endforeach()
  endwhile()
  set(${variable} ${seen} PARENT_SCOPE)
endfunction()

# A source with flags of its own: the vector kernels, device code on the emulated GPU.
function(tutti_skip_sources_with_flags target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  foreach(source IN LISTS sources)
    if(source MATCHES "^\\$<")
      continue()
    endif()
    get_filename_component(source ${source} ABSOLUTE BASE_DIR ${folder})
    get_source_file_property(options ${source} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
    if(options)
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

function(tutti_wants_precompiled target)
  set_property(GLOBAL APPEND PROPERTY TUTTI_PRECOMPILED ${target})
  set_property(TARGET ${target} PROPERTY TUTTI_SHELL ${ARGN})
endfunction()

# Sets `variable` to the name of the header for `target`, or to nothing where none fits.
function(tutti_precompiled_for target variable)
  get_directory_property(everywhere DIRECTORY ${PROJECT_SOURCE_DIR} COMPILE_OPTIONS)
  get_target_property(options ${target} COMPILE_OPTIONS)
  list(REMOVE_ITEM options ${everywhere})
  get_target_property(libraries ${target} LINK_LIBRARIES)
  get_target_property(shell ${target} TUTTI_SHELL)
  tutti_links_of(${target} links)
  set(header tutti_pch)
  if("${options}" STREQUAL "${TUTTI_TEST_OPTIONS}" AND GTest::gmock IN_LIST libraries)
    string(APPEND header _test)
  elseif(options)
    set(${variable} "" PARENT_SCOPE)
    return()
  endif()
  if(shell)
    string(APPEND header _shell)
  elseif(tutti_proto IN_LIST links)
    string(APPEND header _messages)
  elseif(header STREQUAL tutti_pch)
    string(APPEND header _core)
  endif()
  set(${variable} ${header} PARENT_SCOPE)
endfunction()

function(tutti_precompile)
  if(NOT TUTTI_PCH)
    return()
  endif()
  tutti_precompiled(tutti_pch_core HEADERS ${tutti_core_headers})
  tutti_precompiled(tutti_pch_messages HEADERS ${tutti_core_headers} ${tutti_message_headers} DEPS protobuf::libprotobuf)
  tutti_precompiled(tutti_pch_shell HEADERS ${tutti_core_headers} ${tutti_shell_headers} DEPS gRPC::grpc++)
  if(TUTTI_BUILD_TESTS)
    tutti_precompiled(tutti_pch_test OPTIONS ${TUTTI_TEST_OPTIONS} DEPS GTest::gmock
      HEADERS ${tutti_core_headers} ${tutti_test_headers})
    tutti_precompiled(tutti_pch_test_messages OPTIONS ${TUTTI_TEST_OPTIONS} DEPS GTest::gmock protobuf::libprotobuf
      HEADERS ${tutti_core_headers} ${tutti_test_headers} ${tutti_message_headers})
    tutti_precompiled(tutti_pch_test_shell OPTIONS ${TUTTI_TEST_OPTIONS} DEPS GTest::gmock gRPC::grpc++
      HEADERS ${tutti_core_headers} ${tutti_test_headers} ${tutti_shell_headers})
  endif()
  get_property(targets GLOBAL PROPERTY TUTTI_PRECOMPILED)
  foreach(target IN LISTS targets)
    tutti_precompiled_for(${target} header)
    if(header)
      tutti_skip_sources_with_flags(${target})
      target_precompile_headers(${target} REUSE_FROM ${header})
    endif()
  endforeach()
endfunction()
