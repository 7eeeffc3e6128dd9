#include "program/ready_file.h"

#include <cstdio>
#include <fstream>

namespace tutti {

bool WriteReadyFile(const std::string& path, const std::string& line) {
  const std::string aside = path + ".new";
  std::ofstream file(aside, std::ios::trunc);
  file << line << "\n";
  file.close();
  return file && std::rename(aside.c_str(), path.c_str()) == 0;
}

}  // namespace tutti
