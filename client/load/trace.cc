#include "client/load/trace.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
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

absl::StatusOr<TraceRequest> ReadLine(const std::string& line) {
  if (line.size() > kTraceLineBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the line is longer than ", kTraceLineBytesMax, " bytes"));
  }
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

}  // namespace

absl::StatusOr<std::vector<TraceRequest>> ReadTrace(std::istream& in, const std::string& name,
                                                    int64_t requests_max) {
  std::vector<TraceRequest> requests;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const auto where = [&] { return absl::StrCat(name, ":", number); };
    absl::StatusOr<TraceRequest> request = ReadLine(line);
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
