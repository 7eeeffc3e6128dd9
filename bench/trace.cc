#include "bench/trace.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace tutti::bench {
namespace {

// An hour-long trace has some 10^4 lines of some 10^3 bytes; this is a file that is no trace.
constexpr size_t kTraceLineBytesMax = 1 << 20;

// Reads a number in [low, high]. Returns the error, or nothing.
std::string Number(const nlohmann::json& line, const char* field, double low, double high,
                   double* number) {
  const auto found = line.find(field);
  if (found == line.end()) return absl::StrCat(field, " is missing");
  if (!found->is_number()) return absl::StrCat(field, " is not a number");
  *number = found->get<double>();
  if (*number >= low && *number <= high) return "";
  return absl::StrCat(field, " is ", *number, ", not in [", low, ", ", high, "]");
}

std::string Blocks(const nlohmann::json& line, std::vector<int32_t>* blocks) {
  const auto found = line.find("hash_ids");
  if (found == line.end()) return "hash_ids is missing";
  if (!found->is_array()) return "hash_ids is not a list";
  for (const nlohmann::json& id : *found) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
        id.get<int64_t>() > std::numeric_limits<int32_t>::max()) {
      return absl::StrCat("hash_ids has ", id.dump(), ", not an integer in [0, 2^31)");
    }
    blocks->push_back(id.get<int32_t>());
  }
  return "";
}

std::string ParseLine(const std::string& text, ReplayRequest* request) {
  if (text.size() > kTraceLineBytesMax) {
    return absl::StrCat(text.size(), " bytes, at most ", kTraceLineBytesMax);
  }
  const nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return "not a JSON object";
  double arrival_ms = 0;
  double input = 0;
  double output = 0;
  std::string wrong = Number(line, "timestamp", 0, 1e12, &arrival_ms);
  if (wrong.empty()) wrong = Number(line, "input_length", 1, 1e8, &input);
  if (wrong.empty()) wrong = Number(line, "output_length", 0, 1e8, &output);
  if (wrong.empty()) wrong = Blocks(line, &request->blocks);
  if (!wrong.empty()) return wrong;
  request->arrival_s = arrival_ms / 1e3;
  request->input_tokens = static_cast<int64_t>(input);
  request->output_tokens = static_cast<int64_t>(output);
  const int64_t needed = (request->input_tokens + kReplayBlockTokens - 1) / kReplayBlockTokens;
  if (static_cast<int64_t>(request->blocks.size()) == needed) return "";
  return absl::StrCat("hash_ids has ", request->blocks.size(), " ids, input_length of ",
                      request->input_tokens, " needs ", needed);
}

}  // namespace

absl::StatusOr<ReplayTrace> ReadReplayTrace(const std::string& path, bool skip_broken) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("--trace ", path, ": cannot be read"));
  ReplayTrace trace;
  int64_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.empty()) continue;
    ReplayRequest request;
    const std::string wrong = ParseLine(text, &request);
    if (wrong.empty()) {
      trace.requests.push_back(std::move(request));
      continue;
    }
    const std::string named = absl::StrCat(path, ":", number, ": ", wrong);
    if (!skip_broken) {
      return absl::InvalidArgumentError(absl::StrCat(named, "; --skip-broken leaves it out"));
    }
    trace.broken.push_back(named);
  }
  if (trace.requests.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--trace ", path, ": no request in it"));
  }
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const auto& a, const auto& b) { return a.arrival_s < b.arrival_s; });
  return trace;
}

}  // namespace tutti::bench
