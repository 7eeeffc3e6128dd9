# TUTTI_STATIC: every library but glibc goes into the binaries, so that they run on any Linux with glibc >= 2.36.
#
# Debian's CMake packages name the shared libraries only; their archives lie beside them.
# This swaps one for the other in every imported target of the calling directory.
function(tutti_prefer_archives)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "INTERFACE_LIBRARY")
      continue()
    endif()
    foreach(config "" _NONE _NOCONFIG _RELEASE _RELWITHDEBINFO)
      get_target_property(location ${target} IMPORTED_LOCATION${config})
      if(location AND location MATCHES "\\.so(\\.[0-9.]+)?$")
        string(REGEX REPLACE "\\.so(\\.[0-9.]+)?$" ".a" archive ${location})
        if(EXISTS ${archive})
          set_target_properties(${target} PROPERTIES IMPORTED_LOCATION${config} ${archive} IMPORTED_SONAME${config} "")
        endif()
      endif()
    endforeach()
  endforeach()
  # Libraries that packages name have no location: re2, through pkg-config.
  # Of fmt there is no archive, but headers.
  find_library(TUTTI_RE2_ARCHIVE libre2.a)
  if(TARGET re2::re2 AND TUTTI_RE2_ARCHIVE)
    set_target_properties(re2::re2 PROPERTIES INTERFACE_LINK_LIBRARIES ${TUTTI_RE2_ARCHIVE})
  endif()
  if(TARGET spdlog::spdlog_header_only)
    get_target_property(links spdlog::spdlog_header_only INTERFACE_LINK_LIBRARIES)
    string(REPLACE "fmt::fmt" "fmt::fmt-header-only" links "${links}")
    string(REPLACE "-header-only-header-only" "-header-only" links "${links}")
    set_target_properties(spdlog::spdlog_header_only PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")
  endif()
endfunction()
