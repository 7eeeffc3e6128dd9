#include "base/check.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <string>

#include "base/last_words.h"

namespace tutti::internal {
namespace {

std::atomic<void (*)()> last_words{nullptr};
// A process that must end is not kept by a reader that does not come.
constexpr int kReaderPatienceMs = 250;

}  // namespace

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << file << ":" << line << ": CHECK failed: " << condition << " ";
}

CheckFailure::~CheckFailure() {
  SayLastWords(stream_.str());
  std::abort();
}

}  // namespace tutti::internal

namespace tutti {

void SetLastWords(void (*say)()) { internal::last_words = say; }

void SayLastWords(const std::string& text) {
  if (void (*const say)() = internal::last_words.exchange(nullptr)) say();
  const std::string line = text + "\n";
  pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  // As many bytes as fit in at once: a pipe that has room has room for so much.
  if (poll(&out, 1, internal::kReaderPatienceMs) == 1) {
    (void)!write(STDERR_FILENO, line.data(), std::min<size_t>(line.size(), PIPE_BUF));
  }
}

}  // namespace tutti
