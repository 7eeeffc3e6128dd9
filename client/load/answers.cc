#include "client/load/answers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/format.h"
#include "client/load/limits.h"

namespace tutti::client {
namespace {

using Json = nlohmann::json;

bool HasWhole(const Json& line, const char* field) {
  return line.is_object() && line.contains(field) && line[field].is_number_unsigned() &&
         line[field].get<uint64_t>() <= static_cast<uint64_t>(INT32_MAX);
}

bool HasIds(const Json& line) {
  return line.contains("ids") && line["ids"].is_array() &&
         std::all_of(line["ids"].begin(), line["ids"].end(), [](const Json& id) {
           return id.is_number_unsigned() && id.get<uint64_t>() <= uint64_t{INT32_MAX};
         });
}

std::string Difference(int64_t chat, int32_t turn, const std::vector<int32_t>& ours,
                       const std::vector<int32_t>& theirs) {
  const auto at = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  const auto name = [](auto id, auto end) {
    return id == end ? std::string("the end") : absl::StrCat("token ", *id);
  };
  return absl::StrCat("chat ", chat, ", turn ", turn + 1, ", position ", at.first - ours.begin(),
                      ": ", name(at.first, ours.end()), " where ", name(at.second, theirs.end()),
                      " was recorded");
}

}  // namespace

void Answers::Add(const Turn& turn) {
  if (turn.status.ok()) ids_[{turn.chat, turn.turn}] = turn.ids;
}

absl::Status Answers::Save(const std::string& path) const {
  std::ofstream file(path, std::ios::trunc);
  file << Json{{"asked", asked_}}.dump() << "\n";
  for (const auto& [place, ids] : ids_) {
    file << Json{{"chat", place.first}, {"turn", place.second}, {"ids", ids}}.dump() << "\n";
  }
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

absl::StatusOr<Answers> Answers::Load(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("--compare: cannot read the file ", path, ": ", std::strerror(errno)));
  }
  std::string text;
  Answers answers("");
  int64_t bytes = 0;
  for (int64_t number = 1; std::getline(file, text); ++number) {
    const auto bad = [&](const char* what) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": ", what));
    };
    bytes += static_cast<int64_t>(text.size());
    if (bytes > kLoadFileBytesMax) return bad("the file is too large");
    const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (number == 1) {
      if (!line.is_object() || !line.contains("asked") || !line["asked"].is_string()) {
        return bad("this is not a recording of tutti bench");
      }
      answers.asked_ = line["asked"].get<std::string>();
      continue;
    }
    if (!HasWhole(line, "chat") || !HasWhole(line, "turn") || !HasIds(line)) {
      return bad("this is not a recorded answer");
    }
    answers.ids_[{line["chat"].get<int64_t>(), line["turn"].get<int32_t>()}] =
        line["ids"].get<std::vector<int32_t>>();
  }
  if (file.bad() || bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a recording of tutti bench"));
  }
  return answers;
}

absl::StatusOr<Answers::Comparison> Answers::CompareWith(const Answers& recorded) const {
  if (asked_ != recorded.asked_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the recording answers other requests: ", OneLine(recorded.asked_),
                     "; now: ", OneLine(asked_)));
  }
  Comparison result;
  for (const auto& [place, ids] : ids_) {
    const auto found = recorded.ids_.find(place);
    if (found == recorded.ids_.end()) {
      ++result.unknown;
    } else if (found->second == ids) {
      ++result.equal;
    } else {
      ++result.different;
      if (result.examples.size() < static_cast<size_t>(kDifferencesShown)) {
        result.examples.push_back(Difference(place.first, place.second, ids, found->second));
      }
    }
  }
  for (const auto& [place, ids] : recorded.ids_) {
    if (!ids_.contains(place)) ++result.missing;
  }
  return result;
}

}  // namespace tutti::client
