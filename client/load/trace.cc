#include "client/load/trace.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/load/limits.h"

namespace tutti::client {
namespace {

using Json = nlohmann::json;

absl::StatusOr<int64_t> Whole(const Json& object, const char* field, int64_t low, int64_t high) {
  const auto found = object.find(field);
  if (found == object.end()) return absl::InvalidArgumentError(absl::StrCat(field, " is missing"));
  const bool fits_signed =
      found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!fits_signed || found->get<int64_t>() < low || found->get<int64_t>() > high) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is not a whole number in [", low, ", ", high, "]"));
  }
  return found->get<int64_t>();
}

absl::Status ReadBlocks(const Json& object, TraceRequest* request) {
  const auto found = object.find("hash_ids");
  if (found == object.end() || !found->is_array()) {
    return absl::InvalidArgumentError("hash_ids is not a list");
  }
  const int64_t needed = (request->input_tokens + kTraceBlockTokens - 1) / kTraceBlockTokens;
  if (static_cast<int64_t>(found->size()) != needed) {
    return absl::InvalidArgumentError(absl::StrCat("hash_ids has ", found->size(),
                                                   " blocks, input_length ", request->input_tokens,
                                                   " needs ", needed, " of ", kTraceBlockTokens));
  }
  for (const Json& id : *found) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      return absl::InvalidArgumentError("hash_ids holds something that is not a block's number");
    }
    request->blocks.push_back(id.get<int64_t>());
  }
  return absl::OkStatus();
}

absl::StatusOr<TraceRequest> ReadObject(const std::string& line) {
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return absl::InvalidArgumentError("this is not a JSON object");
  TraceRequest request;
  TUTTI_ASSIGN_OR_RETURN(const int64_t at, Whole(object, "timestamp", 0, kTraceTimestampMsMax));
  request.at = std::chrono::milliseconds(at);
  TUTTI_ASSIGN_OR_RETURN(const int64_t input, Whole(object, "input_length", 1, kTraceTokensMax));
  TUTTI_ASSIGN_OR_RETURN(const int64_t output, Whole(object, "output_length", 1, kTraceTokensMax));
  request.input_tokens = static_cast<int32_t>(input);
  request.output_tokens = static_cast<int32_t>(output);
  TUTTI_RETURN_IF_ERROR(ReadBlocks(object, &request));
  return request;
}

// ---- CSV

constexpr char kCsvHead[] = "TIMESTAMP,ContextTokens,GeneratedTokens";
// Digits of a fraction of a second.
constexpr size_t kFractionDigitsMax = 9;

// Since 1970-01-01: "2023-11-16 18:15:46.6805900". Nothing: it is no such time.
std::optional<Duration> ParseTime(const std::string& text) {
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0, second = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%4d-%2u-%2u %2u:%2u:%2u%n", &year, &month, &day, &hour, &minute,
                  &second, &end) != 6) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  // Nanoseconds of later years than 2262 have no room in 64 bits.
  if (year < 1970 || year > 2200 || !date.ok() || hour > 23 || minute > 59 || second > 60)
    return std::nullopt;
  std::string fraction = text.substr(static_cast<size_t>(end));
  int64_t nanoseconds = 0;
  if (!fraction.empty()) {
    const size_t digits = fraction.size() - 1;
    if (fraction[0] != '.' || digits == 0 || digits > kFractionDigitsMax) return std::nullopt;
    for (const char c : fraction.substr(1)) {
      if (!absl::ascii_isdigit(c)) return std::nullopt;
    }
    fraction.resize(kFractionDigitsMax + 1, '0');
    if (!absl::SimpleAtoi(fraction.substr(1), &nanoseconds)) return std::nullopt;
  }
  return std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
         std::chrono::minutes(minute) + std::chrono::seconds(second) +
         std::chrono::nanoseconds(nanoseconds);
}

absl::StatusOr<int32_t> ReadTokens(const std::string& cell, const char* column) {
  int64_t tokens = 0;
  if (!absl::SimpleAtoi(cell, &tokens) || tokens < 1 || tokens > kTraceTokensMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(column, " is not a whole number in [1, ", kTraceTokensMax, "]"));
  }
  return static_cast<int32_t>(tokens);
}

// Lines after the head. Blocks are numbered through.
class CsvReader {
 public:
  absl::StatusOr<TraceRequest> Read(const std::string& line) {
    const std::vector<std::string> cells = absl::StrSplit(absl::StripAsciiWhitespace(line), ',');
    if (cells.size() != 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("it has ", cells.size(), " columns, ", kCsvHead, " are 3"));
    }
    const std::optional<Duration> time = ParseTime(cells[0]);
    if (!time.has_value()) {
      return absl::InvalidArgumentError(
          "TIMESTAMP is not a time such as 2023-11-16 18:15:46.6805900");
    }
    if (!std::exchange(begun_, true)) first_ = *time;
    TraceRequest request{.at = *time - first_};
    if (request.at > std::chrono::milliseconds(kTraceTimestampMsMax)) {
      return absl::InvalidArgumentError("TIMESTAMP is more than a month after the first");
    }
    TUTTI_ASSIGN_OR_RETURN(request.input_tokens, ReadTokens(cells[1], "ContextTokens"));
    TUTTI_ASSIGN_OR_RETURN(request.output_tokens, ReadTokens(cells[2], "GeneratedTokens"));
    for (int32_t begin = 0; begin < request.input_tokens; begin += kTraceBlockTokens) {
      request.blocks.push_back(next_block_++);
    }
    return request;
  }

 private:
  bool begun_ = false;
  Duration first_{};
  int64_t next_block_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<TraceRequest>> ReadTrace(std::istream& in, const std::string& name,
                                                    int64_t requests_max) {
  std::vector<TraceRequest> requests;
  bool is_csv = false;
  CsvReader csv;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    const auto where = [&] { return absl::StrCat(name, ":", number); };
    if (line.size() > kTraceLineBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(where(), ": the line is longer than ", kTraceLineBytesMax, " bytes"));
    }
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    if (!is_csv && requests.empty() && absl::StripAsciiWhitespace(line) == kCsvHead) {
      is_csv = true;
      continue;
    }
    absl::StatusOr<TraceRequest> request = is_csv ? csv.Read(line) : ReadObject(line);
    if (!request.ok()) return Annotate(request.status(), where());
    if (!requests.empty() && request->at < requests.back().at) {
      return absl::InvalidArgumentError(
          absl::StrCat(where(), ": timestamp is before that of the request above"));
    }
    requests.push_back(*std::move(request));
    if (static_cast<int64_t>(requests.size()) == requests_max) break;
  }
  if (in.bad()) return absl::UnavailableError(absl::StrCat("cannot read ", name));
  if (requests.empty()) return absl::InvalidArgumentError(absl::StrCat(name, " has no requests"));
  return requests;
}

}  // namespace tutti::client
