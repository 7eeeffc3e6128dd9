#include "quant/in_parts.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread.h"

namespace tutti::quant {

absl::Status InParts(int64_t rows, int threads,
                     absl::FunctionRef<absl::Status(int64_t begin, int64_t end)> of_rows) {
  const int64_t blocks = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
  const int64_t parts = std::clamp<int64_t>(rows / kRowsAtOnce, 1, std::max(threads, 1));
  std::vector<absl::Status> said(static_cast<size_t>(parts));
  std::vector<std::thread> others;
  const auto run = [&](int64_t part) {
    said[static_cast<size_t>(part)] =
        of_rows(std::min(rows, blocks * part / parts * kRowsAtOnce),
                std::min(rows, blocks * (part + 1) / parts * kRowsAtOnce));
  };
  int64_t part = 0;
  for (; part + 1 < parts; ++part) {
    auto started = TryStartThread("one for some rows of a matrix", [&run, part] { run(part); });
    if (!started.ok()) break;
    others.push_back(*std::move(started));
  }
  for (; part < parts; ++part) run(part);
  for (std::thread& other : others) other.join();
  for (absl::Status& status : said) TUTTI_RETURN_IF_ERROR(std::move(status));
  return absl::OkStatus();
}

}  // namespace tutti::quant
