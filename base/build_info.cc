#include "base/build_info.h"

namespace tutti {

std::string_view BuildStamp() { return TUTTI_BUILD_STAMP; }

}  // namespace tutti
