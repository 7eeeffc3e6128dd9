#include "metrics/process_metrics.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>

#include "base/build_info.h"

namespace tutti::metrics {
namespace {

// The second in which the machine started; 0 where the system does not say.
double BootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  while (file >> word) {
    double value = 0;
    if (word == "btime" && file >> value) return value;
  }
  return 0;
}

// Fields of /proc/self/stat after the name, which may hold anything.
struct ProcessStat {
  double user_ticks = 0, system_ticks = 0, start_ticks = 0, resident_pages = 0;
};
std::optional<ProcessStat> ReadStat() {
  std::ifstream file("/proc/self/stat");
  std::stringstream whole;
  whole << file.rdbuf();
  const std::string text = whole.str();
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  std::string field;
  // The first is field 3 of proc(5).
  for (int number = 3; fields >> field; ++number) {
    const double value = std::strtod(field.c_str(), nullptr);
    if (number == 14) stat.user_ticks = value;
    if (number == 15) stat.system_ticks = value;
    if (number == 22) stat.start_ticks = value;
    if (number == 24) stat.resident_pages = value;
  }
  return stat;
}

double CountDescriptors() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    ++count;
  }
  return count;
}

// The end of a PEM file's first certificate, in seconds since 1970.
std::optional<double> EndOf(const std::string& path) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> file(BIO_new_file(path.c_str(), "r"),
                                                           &BIO_free_all);
  if (file == nullptr) return std::nullopt;
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(file.get(), nullptr, no_passphrase, nullptr), &X509_free);
  std::tm end = {};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    return std::nullopt;
  }
  return static_cast<double>(timegm(&end));
}

}  // namespace

void WriteProcess(std::string_view program, Exposition* to) {
  to->Begin("tutti_build_info", Kind::kGauge, "1; the build of this process.");
  to->Sample({{"program", program}, {"build", std::string(BuildStamp())}}, 1);
  if (const std::optional<ProcessStat> stat = ReadStat()) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    to->Single("process_start_time_seconds", Kind::kGauge,
               "When the process started, in seconds since 1970.",
               BootTime() + stat->start_ticks / ticks);
    to->Single("process_cpu_seconds_total", Kind::kCounter, "Processor time, user and system.",
               (stat->user_ticks + stat->system_ticks) / ticks);
    to->Single("process_resident_memory_bytes", Kind::kGauge, "Memory in use.",
               stat->resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE)));
  }
  to->Single("process_open_fds", Kind::kGauge, "Descriptors that are open.", CountDescriptors());
  rlimit descriptors = {};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    to->Single("process_max_fds", Kind::kGauge, "Descriptors that may be open.",
               static_cast<double>(descriptors.rlim_cur));
  }
}

void WriteCertificates(const std::vector<CertificateFile>& files, Exposition* to) {
  to->Begin("tutti_certificate_expiry_time_seconds", Kind::kGauge,
            "When the certificate of a port ends, in seconds since 1970.");
  for (const CertificateFile& file : files) {
    if (file.path.empty()) continue;
    if (const std::optional<double> end = EndOf(file.path)) {
      to->Sample({{"port", file.port}}, *end);
    }
  }
}

}  // namespace tutti::metrics
