#include "metrics/span_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "metrics/limits.h"

namespace tutti::metrics {
namespace {

// A line is one write, so that several processes may share a file. A pipe that nobody reads is
// waited for until then. The bytes that were written.
size_t AppendLine(int file, const std::string& line, Instant until) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = write(file, line.data() + done, line.size() - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n >= 0 || errno == EINTR) continue;
    const Duration left = until - SystemClock().Now();
    if (errno != EAGAIN || left <= Duration::zero()) break;
    pollfd room = {.fd = file, .events = POLLOUT, .revents = 0};
    poll(&room, 1, static_cast<int>(std::max(1.0, Milliseconds(left))));
  }
  return done;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpanWriter>> SpanWriter::Start(std::string service,
                                                              const TraceOptions& options) {
  if (options.file.empty() && options.endpoint.empty()) return std::unique_ptr<SpanWriter>();
  HttpUrl collector;
  if (!options.endpoint.empty()) {
    auto url = ParseHttpUrl(options.endpoint);
    if (!url.ok()) return Annotate(url.status(), "--otlp-endpoint");
    collector = *std::move(url);
    collector.path += "/v1/traces";
  }
  int file = -1;
  if (!options.file.empty()) {
    file = open(options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
    if (file < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--traces ", options.file, ": ", std::strerror(errno)));
    }
  }
  return std::unique_ptr<SpanWriter>(
      new SpanWriter(std::move(service), file, std::move(collector)));
}

SpanWriter::SpanWriter(std::string service, int file, HttpUrl collector)
    : service_(std::move(service)),
      file_(file),
      collector_(std::move(collector)),
      thread_(StartThread("traces", [this] { Run(); })) {}

SpanWriter::~SpanWriter() {
  {
    const MutexLock lock(&mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  if (file_ >= 0) close(file_);
}

void SpanWriter::Add(std::vector<Span> spans) {
  const MutexLock lock(&mutex_);
  if (ending_ || waiting_.size() + spans.size() > kSpansWaitingMax) {
    no_room_ += spans.size();
    return;
  }
  waiting_.insert(waiting_.end(), std::make_move_iterator(spans.begin()),
                  std::make_move_iterator(spans.end()));
  if (waiting_.size() >= kSpansPerBatch) changed_.NotifyAll();
}

void SpanWriter::Run() {
  bool ending = false;
  while (!ending) {
    std::vector<Span> spans;
    {
      const Instant until = SystemClock().Now() + kSpanPeriod;
      const MutexLock lock(&mutex_);
      while (!ending_ && waiting_.size() < kSpansPerBatch && changed_.WaitUntil(&mutex_, until)) {
      }
      ending = ending_;
      spans.swap(waiting_);
    }
    if (!spans.empty()) HandOn(spans, ending);
  }
}

// All that waited is one batch: a collector that hangs costs its time once.
void SpanWriter::HandOn(const std::vector<Span>& spans, bool ending) {
  std::string text = SpansJson(service_, spans);
  bool done = true;
  if (!collector_.host.empty()) {
    done = PostJson(collector_, text, ending ? kPostTimeAtEnd : kPostTime).ok();
  }
  text += '\n';
  if (file_ >= 0) {
    // Behind a line that a full disk has cut.
    if (std::exchange(is_cut_, false)) text.insert(0, 1, '\n');
    const auto patience = ending ? kPostTimeAtEnd : kPostTime;
    const size_t appended = AppendLine(file_, text, SystemClock().Now() + patience);
    is_cut_ = appended > 0 && appended < text.size();
    done &= appended == text.size();
  }
  (done ? written_ : failed_) += spans.size();
}

void SpanWriter::WriteMetrics(Exposition* to) const {
  to->Single("tutti_spans_written_total", Kind::kCounter,
             "Spans of traces that were handed on to the file and the collector.",
             static_cast<double>(written_));
  to->Begin("tutti_spans_dropped_total", Kind::kCounter,
            "Spans that were not: for want of room, or because it failed.");
  to->Sample({{"reason", "room"}}, static_cast<double>(no_room_));
  to->Sample({{"reason", "failed"}}, static_cast<double>(failed_));
}

}  // namespace tutti::metrics
