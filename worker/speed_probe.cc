#include "worker/speed_probe.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/speed_text.h"
#include "kernels/host_buffer.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

using kernels::Backend;
using kernels::DeviceBuffer;
using kernels::TensorView;
using kernels::Weight;

// Weights of one shape, and rows to multiply with them.
class Probe {
 public:
  explicit Probe(Backend* backend) : backend_(backend) {}

  absl::Status Prepare(DType dtype) {
    const int64_t bytes = kProbeWidth * kProbeWidth * DTypeBytes(dtype);
    TUTTI_ASSIGN_OR_RETURN(const auto source, kernels::AllocateHost(bytes));
    kernels::WeightSource weight;
    weight.parts = {{.data = source->data(),
                     .dtype = dtype,
                     .rows = kProbeWidth,
                     .cols = kProbeWidth,
                     .row_stride = kProbeWidth}};
    weight.name = "probe";
    for (int64_t packed = 0; packed < kProbeWeightBytes; packed += bytes) {
      TUTTI_ASSIGN_OR_RETURN(weights_.emplace_back(), backend_->Pack(weight));
    }
    const int64_t row_bytes = kProbeWidth * static_cast<int64_t>(sizeof(float));
    TUTTI_ASSIGN_OR_RETURN(in_, backend_->Allocate(kProbeRows * row_bytes));
    TUTTI_ASSIGN_OR_RETURN(out_, backend_->Allocate(kProbeRows * row_bytes));
    TUTTI_ASSIGN_OR_RETURN(host_, kernels::AllocateHost(row_bytes));
    return absl::OkStatus();
  }

  double ReadBytesPerSecond() {
    int64_t bytes = 0;
    for (const auto& weight : weights_) bytes += weight->bytes();
    return static_cast<double>(bytes) / Best([this] {
             for (const auto& weight : weights_) Multiply(*weight, 1);
           });
  }

  double FlopsPerSecond() {
    const double flops = 2.0 * kProbeRows * kProbeWidth * kProbeWidth;
    return flops / Best([this] { Multiply(*weights_.front(), kProbeRows); });
  }

 private:
  static TensorView View(const DeviceBuffer& buffer, kernels::Device device, int64_t rows) {
    return {.data = buffer.data(),
            .dtype = DType::kF32,
            .device = device,
            .rows = rows,
            .cols = kProbeWidth,
            .row_stride = kProbeWidth};
  }
  void Multiply(const Weight& weight, int64_t rows) {
    backend_->MatMul(View(*in_, backend_->device(), rows), weight,
                     View(*out_, backend_->device(), rows));
  }
  // Seconds of the quickest of a few passes: a disturbance only makes one longer.
  template <class Fn>
  double Best(const Fn& pass) {
    double best = 0;
    for (int i = 0; i < kProbePasses; ++i) {
      const auto start = std::chrono::steady_clock::now();
      pass();
      // Copying a row to the host waits for all that was asked of the device.
      backend_->Convert(View(*out_, backend_->device(), 1), View(*host_, {}, 1));
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (best == 0 || seconds < best) best = seconds;
    }
    return std::max(best, 1e-9);
  }

  Backend* const backend_;
  std::vector<std::unique_ptr<Weight>> weights_;
  std::unique_ptr<DeviceBuffer> in_;
  std::unique_ptr<DeviceBuffer> out_;
  std::unique_ptr<DeviceBuffer> host_;
};

// An open file that is ours alone until the end.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (fd_ >= 0 && flock(fd_, LOCK_EX) != 0) {
      close(fd_);
      fd_ = -1;
    }
  }
  ~LockedFile() {
    if (fd_ >= 0) close(fd_);
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  bool ok() const { return fd_ >= 0; }
  std::string Read() const {
    std::string text(kSpeedFileBytesMax, '\0');
    const ssize_t count = pread(fd_, text.data(), text.size(), 0);
    text.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return text;
  }
  bool Append(const std::string& line) const {
    return lseek(fd_, 0, SEEK_END) >= 0 &&
           write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  }

 private:
  int fd_;
};

// "KEY SPEED" in a line of its own.
MeasuredSpeed FindSpeed(const std::string& text, const std::string& key) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() != 2 || words[0] != key) continue;
    const absl::StatusOr<MeasuredSpeed> speed = ParseSpeed(words[1]);
    if (speed.ok()) return *speed;
  }
  return {};
}

}  // namespace

absl::StatusOr<MeasuredSpeed> MeasureSpeed(Backend* backend, DType dtype) {
  Probe probe(backend);
  TUTTI_RETURN_IF_ERROR(probe.Prepare(dtype));
  MeasuredSpeed speed;
  speed.read_bytes_per_second = probe.ReadBytesPerSecond();
  speed.flops_per_second = probe.FlopsPerSecond();
  return speed;
}

absl::StatusOr<MeasuredSpeed> ParseSpeed(const std::string& text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '@');
  if (parts.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is no speed; write reading and computing, such as 900GB/s@71Tflop/s"));
  }
  MeasuredSpeed speed;
  TUTTI_ASSIGN_OR_RETURN(speed.read_bytes_per_second, ParseByteRate(parts[0], "900GB/s"));
  TUTTI_ASSIGN_OR_RETURN(speed.flops_per_second, ParseFlopRate(parts[1]));
  return speed;
}

absl::StatusOr<MeasuredSpeed> SharedSpeed(
    const std::string& file, const std::string& key,
    const std::function<absl::StatusOr<MeasuredSpeed>()>& measure) {
  if (file.empty()) return measure();
  const LockedFile shared(file);
  if (!shared.ok()) {
    spdlog::warn("--speed-file {}: cannot be written; measuring alone", file);
    return measure();
  }
  const MeasuredSpeed known = FindSpeed(shared.Read(), key);
  if (known.known()) return known;
  TUTTI_ASSIGN_OR_RETURN(MeasuredSpeed speed, measure());
  // As other workers will read it.
  speed.read_bytes_per_second = std::round(speed.read_bytes_per_second);
  speed.flops_per_second = std::round(speed.flops_per_second);
  const std::string line = absl::StrFormat("%s %.0fB/s@%.0fflop/s\n", key,
                                           speed.read_bytes_per_second, speed.flops_per_second);
  if (!shared.Append(line)) spdlog::warn("--speed-file {}: cannot be written", file);
  return speed;
}

}  // namespace tutti::worker
