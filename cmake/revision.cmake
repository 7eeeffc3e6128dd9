# The revision in the build stamp.
# Processes of different stamps do not work together, so two trees must never have one.
#
#   tutti_find_revision(FOLDER VARIABLE)
#
# In this order: TUTTI_REVISION, of the command line or the environment, for builds that have the sources alone (the image's);
# what git says of FOLDER; a digest of the sources in it.
function(tutti_find_revision folder variable)
  set(revision "${TUTTI_REVISION}")
  if(NOT revision)
    set(revision "$ENV{TUTTI_REVISION}")
  endif()
  if(revision AND NOT revision MATCHES "^[A-Za-z0-9._-]+$")
    message(FATAL_ERROR "TUTTI_REVISION is \"${revision}\"; it must be of letters, digits, '.', '_' and '-'")
  endif()
  string(LENGTH "${revision}" length)
  if(length GREATER 64)
    message(FATAL_ERROR "TUTTI_REVISION has ${length} characters, the limit is 64")
  endif()
  if(NOT revision AND EXISTS ${folder}/.git)
    execute_process(COMMAND git describe --always --dirty --abbrev=10
      WORKING_DIRECTORY ${folder} OUTPUT_VARIABLE revision ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(NOT revision)
    file(GLOB_RECURSE sources LIST_DIRECTORIES FALSE RELATIVE ${folder}
      ${folder}/*.h ${folder}/*.cc ${folder}/*.cu ${folder}/*.proto ${folder}/*.cmake ${folder}/*/CMakeLists.txt)
    list(FILTER sources EXCLUDE REGEX "^build/")
    list(SORT sources)
    set(digests)
    foreach(source IN LISTS sources)
      file(SHA256 ${folder}/${source} digest)
      string(APPEND digests "${source} ${digest}\n")
    endforeach()
    string(SHA256 digest "${digests}")
    string(SUBSTRING ${digest} 0 10 digest)
    set(revision "tree-${digest}")
  endif()
  set(${variable} ${revision} PARENT_SCOPE)
endfunction()
