// The file by which a process says that it is there, and where.
//
// Thread: any.
#pragma once

#include <string>

namespace tutti {

// Writes one line, aside and renamed: a reader never sees a part of it. False: it cannot be
// written.
bool WriteReadyFile(const std::string& path, const std::string& line);

}  // namespace tutti
