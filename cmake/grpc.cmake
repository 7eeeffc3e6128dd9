# gRPC and protobuf as Debian packages them, static ones when TUTTI_STATIC is on.
find_package(Protobuf REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
find_package(gRPC CONFIG REQUIRED)
