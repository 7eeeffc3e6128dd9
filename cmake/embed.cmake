# Files compiled into a program, byte by byte, without a tool that CMake does not have.
#
#   tutti_embed(page FILES index.html map.js)    -> the source file ${page}, which depends on these files of the folder page/
#
# The source defines PageFiles() of gateway/page_files.h.
# Run as a script, this file writes it: -DFOLDER -DFILES -DOUTPUT.
function(tutti_embed name)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}_files.cc)
  set(inputs ${ARG_FILES})
  list(TRANSFORM inputs PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${name}/)
  string(REPLACE ";" "," files "${ARG_FILES}")
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR}/${name} -DFILES=${files} -DOUTPUT=${output} -P ${script}
    DEPENDS ${inputs} ${script} VERBATIM)
  set(${name} ${output} PARENT_SCOPE)
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  return()
endif()

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")
set(arrays)
set(rows)
string(REPLACE "," ";" FILES "${FILES}")
foreach(file IN LISTS FILES)
  string(REGEX REPLACE ".*\\." "" ending ${file})
  if(NOT DEFINED type_${ending})
    message(FATAL_ERROR "cmake/embed.cmake knows no content type for ${file}: add it there")
  endif()
  file(READ ${FOLDER}/${file} bytes HEX)
  file(SHA256 ${FOLDER}/${file} digest)
  string(SUBSTRING ${digest} 0 16 tag)
  string(MAKE_C_IDENTIFIER "k_${file}" array)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n"
         bytes "${bytes}")
  string(APPEND arrays "const unsigned char ${array}[] = {\n${bytes}0};\n")
  set(path "/page/${file}")
  if(file STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND rows "    {\"${path}\", \"${type_${ending}}\", \"\\\"${tag}\\\"\",\n"
                     "     {reinterpret_cast<const char*>(${array}), ${size}}},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by cmake/embed.cmake.
#include \"gateway/page_files.h\"

namespace tutti::gateway {
namespace {

${arrays}
const PageFile kFiles[] = {
${rows}};

}  // namespace

std::span<const PageFile> PageFiles() { return kFiles; }

}  // namespace tutti::gateway
")
