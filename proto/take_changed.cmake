# Copies protoc's outputs that differ from those in use:   cmake -DFROM=fresh/NAME -DTO=gen/NAME -P take_changed.cmake
#
# Stubs carry the comments of their .proto file, messages do not; stubs are taken without.
foreach(ending .pb.cc .pb.h .grpc.pb.cc .grpc.pb.h)
  if(ending MATCHES "grpc")
    file(READ ${FROM}${ending} text)
    string(REGEX REPLACE "\n *//[^\n]*" "" text "${text}")
    file(WRITE ${FROM}${ending} "${text}")
  endif()
  file(COPY_FILE ${FROM}${ending} ${TO}${ending} ONLY_IF_DIFFERENT)
endforeach()
