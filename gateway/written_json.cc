#include "gateway/written_json.h"

#include <algorithm>

#include "gateway/json_text.h"

namespace tutti::gateway {
namespace {

constexpr std::string_view kWrittenBlanks = " \t\r\n";
// The parser leaves it out, too.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string_view Trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kWrittenBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kWrittenBlanks) + 1);
}

// The end of the string that begins at `at`, behind its quotation mark.
size_t EndOfString(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// What stands between the commas of an object or a list.
std::vector<std::string_view> PartsOf(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text = Trimmed(text);
  if (text.size() < 2) return {};
  text = text.substr(1, text.size() - 2);
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      i = EndOfString(text, i) - 1;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.push_back(Trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  const std::string_view last = Trimmed(text.substr(begin));
  if (!last.empty()) parts.push_back(last);
  return parts;
}

std::string Unquoted(std::string_view quoted) {
  if (quoted.find('\\') == std::string_view::npos) {
    return std::string(quoted.substr(1, quoted.size() - 2));
  }
  const Json name = Json::parse(quoted.begin(), quoted.end(), nullptr, /*allow_exceptions=*/false);
  return name.is_string() ? name.get<std::string>() : std::string();
}

}  // namespace

std::vector<WrittenMember> MembersAsWritten(std::string_view object) {
  std::vector<WrittenMember> members;
  for (const std::string_view part : PartsOf(object)) {
    const size_t end = EndOfString(part, 0);
    const size_t colon = part.find(':', end);
    if (part.front() != '"' || colon == std::string_view::npos) continue;
    members.push_back({Unquoted(part.substr(0, end)), Trimmed(part.substr(colon + 1))});
  }
  return members;
}

std::vector<std::string_view> ItemsAsWritten(std::string_view list) { return PartsOf(list); }

std::string_view MemberAsWritten(std::string_view object, std::string_view name) {
  for (const WrittenMember& member : MembersAsWritten(object)) {
    if (member.name == name) return member.value;
  }
  return {};
}

}  // namespace tutti::gateway
