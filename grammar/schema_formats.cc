#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "grammar/schema_values.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

// Full dates, with the 29th of February in leap years only, and without the year 0, which many
// readers refuse.
std::string Date() {
  const std::string_view year = "(?:[1-9]\\d{3}|0[1-9]\\d{2}|00[1-9]\\d|000[1-9])";
  const std::string_view leap =
      "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
  return Concat("(?:", year, "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|",
                "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|", leap, "-02-29)");
}

// RFC 3339, without leap seconds, which many readers refuse.
constexpr std::string_view kTime =
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";

constexpr std::string_view kIpv4 =
    "(?:(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

std::string Ipv6() {
  const std::string_view group = "[0-9A-Fa-f]{1,4}";
  const std::string last = Concat("(?:", group, ":", group, "|", kIpv4, ")");
  std::string all = Concat("(?:", group, ":){6}", last);
  // At most `before` groups before the ::, and behind it so many as are still missing, or fewer.
  for (int before = 0; before <= 7; ++before) {
    const std::string left =
        before == 0 ? "" : Concat("(?:", group, "(?::", group, "){0,", before - 1, "})?");
    const int behind = 7 - before;
    std::string right;
    if (behind == 1) right = Concat("(?:", group, ")?");
    if (behind >= 2) {
      right = Concat("(?:(?:", group, ":){0,", behind - 2, "}", last, "|", group, ")?");
    }
    all += Concat("|", left, "::", right);
  }
  return Concat("(?:", all, ")");
}

// RFC 5321.
std::string Email() {
  const std::string_view atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string_view label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  const std::string_view quoted = R"("(?:[\x20\x21\x23-\x5B\x5D-\x7E]|\\[\x20-\x7E])*")";
  return Concat("(?:", atom, "(?:\\.", atom, ")*|", quoted, ")@(?:", label, "(?:\\.", label,
                ")*|\\[(?:", kIpv4, "|IPv6:", Ipv6(), ")\\])");
}

constexpr std::string_view kUuid =
    "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}";

// RFC 3986, with a scheme.
std::string Uri() {
  const std::string pchar = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
  const std::string user = "(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})";
  const std::string name = "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})";
  const std::string authority =
      Concat("(?:", user, "*@)?(?:\\[", Ipv6(), "\\]|", name, "*)(?::[0-9]*)?");
  const std::string rest = Concat("(?:", pchar, "|[/?])*");
  return Concat("[A-Za-z][A-Za-z0-9+.-]*:(?://", authority, "(?:/", pchar, "*)*|/(?:", pchar,
                "+(?:/", pchar, "*)*)?|", pchar, "+(?:/", pchar, "*)*|)(?:\\?", rest, ")?(?:#",
                rest, ")?");
}

const std::map<std::string, std::string, std::less<>>& Expressions() {
  static const std::map<std::string, std::string, std::less<>> kAll = {
      {"date", Date()},   {"date-time", Concat(Date(), "[Tt]", kTime)},
      {"email", Email()}, {"ipv4", std::string(kIpv4)},
      {"ipv6", Ipv6()},   {"time", std::string(kTime)},
      {"uri", Uri()},     {"uuid", std::string(kUuid)},
  };
  return kAll;
}

constexpr std::array<std::string_view, 12> kNotServed = {
    "duration",      "hostname",     "idn-email", "idn-hostname",          "iri",
    "iri-reference", "json-pointer", "regex",     "relative-json-pointer", "uri-reference",
    "uri-template",  "idn-uri"};

}  // namespace

absl::StatusOr<std::string_view> FormatExpression(std::string_view format) {
  const auto found = Expressions().find(format);
  if (found != Expressions().end()) return std::string_view(found->second);
  if (std::find(kNotServed.begin(), kNotServed.end(), format) != kNotServed.end()) {
    return absl::InvalidArgumentError(Concat(format, " is not served"));
  }
  return std::string_view();
}

}  // namespace tutti::grammar
