// The build that this is. All binaries of one build say the same; processes of different builds
// work together where protocol (base/protocol.h) and numerics class are the same.
#pragma once

#include <string_view>

namespace tutti {

// Version and source revision, for example "0.1.0-4f2c9aa".
std::string_view BuildStamp();

}  // namespace tutti
