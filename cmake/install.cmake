# What `cmake --install` puts where, in components that are the Debian packages of cmake/packages.cmake:
#
#   client   tutti, its man pages and its completion for bash                                bin, share
#   server   coordinator, worker and gateway, their man pages, units and settings            bin, lib/systemd, share, /etc/tutti
#   dev      the C++ client: headers, archives, find_package(Tutti), pkg-config tutti         include/tutti, lib
#   cuda     the plug-in for GPUs, where it is built                                          lib/tutti
#
# Programs, archives and pages must have been built: `tools/package` builds those and nothing else (target `packaged`).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Man pages and the completion, from what the programs say of themselves.
find_program(PYTHON3 python3 REQUIRED)
set(pages ${PROJECT_BINARY_DIR}/pages)
set(maker ${PROJECT_SOURCE_DIR}/tools/make_man.py)
set(programs tutti tutti-coordinator tutti-worker tutti-gateway)
list(TRANSFORM programs REPLACE ".+" "$<TARGET_FILE:\\0>" OUTPUT_VARIABLE files)
add_custom_command(OUTPUT ${pages}/made
  COMMAND ${PYTHON3} -B ${maker} --version-text ${PROJECT_VERSION} --out ${pages} ${files}
  COMMAND ${CMAKE_COMMAND} -E touch ${pages}/made
  DEPENDS ${maker} ${programs} VERBATIM COMMENT "Man pages")
add_custom_target(man_pages ALL DEPENDS ${pages}/made)
add_custom_target(packaged DEPENDS man_pages ${programs} tutti_client)

# Where the archive of a library lies that programs of others link.
set(archives ${CMAKE_INSTALL_LIBDIR}/tutti)
# The C++ client and the libraries that it is made of.
set(exported tutti_base tutti_log tutti_proto tutti_grpc tutti_grpc_runtime tutti_transport tutti_client)
foreach(library IN LISTS exported)
  string(REGEX REPLACE "^tutti_" "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
endforeach()
set_property(TARGET tutti_client APPEND PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_20)

# Sets `variable` to the headers that `header` reaches, itself among them, as paths below the root; those that protoc makes are not.
function(tutti_reached_headers header variable)
  set(seen)
  set(open ${header})
  while(open)
    list(POP_FRONT open next)
    if(next IN_LIST seen OR NOT EXISTS ${PROJECT_SOURCE_DIR}/${next})
      continue()
    endif()
    list(APPEND seen ${next})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${next})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${next} lines REGEX "^#include \"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
      list(APPEND open ${included})
    endforeach()
  endwhile()
  set(${variable} ${seen} PARENT_SCOPE)
endfunction()

install(TARGETS tutti RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT client)
install(DIRECTORY ${pages}/client/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT client)
install(TARGETS tutti-coordinator tutti-worker tutti-gateway RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT server)
install(DIRECTORY ${pages}/server/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT server)
# Units name programs and settings by their whole paths, which are known when they are installed.
install(CODE "set(TUTTI_DEPLOY \"${PROJECT_SOURCE_DIR}/deploy/systemd\")" COMPONENT server)
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_units.cmake COMPONENT server)

install(TARGETS ${exported} EXPORT TuttiTargets ARCHIVE DESTINATION ${archives} COMPONENT dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti)
install(EXPORT TuttiTargets NAMESPACE Tutti:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti COMPONENT dev)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/TuttiConfig.cmake.in ${PROJECT_BINARY_DIR}/TuttiConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may change what a program was compiled against.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TuttiConfig.cmake ${PROJECT_BINARY_DIR}/TuttiConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti COMPONENT dev)
file(RELATIVE_PATH above /at/${CMAKE_INSTALL_LIBDIR}/pkgconfig /at)
configure_file(cmake/tutti.pc.in ${PROJECT_BINARY_DIR}/tutti.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
foreach(root client/client.h base/retry_delay.h)
  tutti_reached_headers(${root} reached)
  list(APPEND headers ${reached})
endforeach()
list(REMOVE_DUPLICATES headers)
foreach(header IN LISTS headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti/${folder} COMPONENT dev)
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/proto/gen/tutti/v1 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti/tutti COMPONENT dev
  FILES_MATCHING PATTERN "*.pb.h" PATTERN "*.grpc.pb.h" EXCLUDE)

set(packages client=tutti-client server=tutti-server dev=libtutti-dev)
if(TARGET tutti_cuda)
  # Where workers look for it: beside the folder of programs.
  install(TARGETS tutti_cuda LIBRARY DESTINATION lib/tutti COMPONENT cuda)
  list(APPEND packages cuda=tutti-cuda)
  add_dependencies(packaged tutti_cuda)
endif()
foreach(pair IN LISTS packages)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} RENAME copyright COMPONENT ${component})
endforeach()
