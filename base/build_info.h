// Which build this is. All binaries of one build say the same; processes of different builds do not
// work together.
#pragma once

#include <string_view>

namespace tutti {

// Version and source revision, for example "0.1.0-4f2c9aa".
std::string_view BuildStamp();

}  // namespace tutti
