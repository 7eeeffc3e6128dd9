# Debian packages, by cpack: one for each component of cmake/install.cmake.
# `tools/package` builds them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tutti)
set(CPACK_PACKAGE_VENDOR Tutti)
set(CPACK_PACKAGE_CONTACT "The Tutti authors <tutti@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
# The revision is part of the version, as it is of the build stamp, so that dpkg sees that two builds differ.
tutti_find_revision(${PROJECT_SOURCE_DIR} revision)
string(REGEX REPLACE "[^A-Za-z0-9.]" "." revision "${revision}")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION}+${revision})
set(CPACK_COMPONENTS_ALL client server dev)
if(TARGET tutti_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
# As `DESTDIR=… cmake --install --prefix /usr` does: settings go to /etc.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_COMPONENT_CLIENT_DESCRIPTION "Command of Tutti, which serves a language model from many processes
 It plans layouts, asks a service, and starts a cluster on this machine.")
set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME tutti-client)
set(CPACK_DEBIAN_CLIENT_PACKAGE_SECTION net)
# `tutti up` starts the programs of tutti-server.
set(CPACK_DEBIAN_CLIENT_PACKAGE_RECOMMENDS tutti-server)

set(CPACK_COMPONENT_SERVER_DESCRIPTION "Coordinator, worker and gateway of Tutti
 They serve one large language model from many processes, over gRPC and OpenAI's HTTP API.")
set(CPACK_DEBIAN_SERVER_PACKAGE_NAME tutti-server)
set(CPACK_DEBIAN_SERVER_PACKAGE_SECTION net)
set(CPACK_DEBIAN_SERVER_PACKAGE_DEPENDS "systemd-standalone-sysusers | systemd, passwd")
set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS tutti-client)
set(debian ${PROJECT_SOURCE_DIR}/deploy/debian)
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA ${debian}/postinst ${debian}/prerm ${debian}/postrm ${debian}/conffiles)

set(CPACK_COMPONENT_DEV_DESCRIPTION "C++ client of Tutti
 Headers and archives, for find_package(Tutti) of CMake and for pkg-config.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libtutti-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libgrpc++-dev, libprotobuf-dev, protobuf-compiler-grpc, libabsl-dev, libspdlog-dev, libssl-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)

set(CPACK_COMPONENT_CUDA_DESCRIPTION "GPU plug-in of Tutti's worker
 It needs NVIDIA's driver and no other part of CUDA.")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME tutti-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION non-free/net)
# Of the same build as the worker, which loads no other.
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "tutti-server (= ${CPACK_PACKAGE_VERSION})")
include(CPack)
