// The facts that every process tells of itself.
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "metrics/exposition.h"

namespace tutti::metrics {

// Its build, and the families that all of Prometheus' client libraries have: start, memory,
// processor time, descriptors. `program`: "coordinator", "worker" or "gateway".
void WriteProcess(std::string_view program, Exposition* to);

struct CertificateFile {
  std::string port;  // what it is for: "public", "peer", "coordinator"
  std::string path;  // PEM; empty: there is none
};
// When each ends. The files are read anew: they are renewed while the process runs. One that cannot
// be read has no sample.
void WriteCertificates(const std::vector<CertificateFile>& files, Exposition* to);

}  // namespace tutti::metrics
