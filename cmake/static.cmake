# TUTTI_STATIC: every library but glibc goes into the binaries, so that they run on any Linux with glibc >= 2.36.
#
# Debian's CMake packages name the shared libraries only; their archives lie beside them. This swaps one for the other
# in every imported target of the calling directory.
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
endfunction()
