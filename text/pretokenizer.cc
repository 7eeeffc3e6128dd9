#include "text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/limits.h"
#include "text/split_pattern.h"

namespace tutti::text {
namespace {

std::string ErrorText(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct MatchState {
  MatchState()
      : data(pcre2_match_data_create(1, nullptr)), context(pcre2_match_context_create(nullptr)) {
    if (context != nullptr) pcre2_set_match_limit(context, kSplitMatchLimit);
  }
  ~MatchState() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
};

}  // namespace

class Pretokenizer::Pattern {
 public:
  static absl::StatusOr<std::unique_ptr<Pattern>> Compile(std::string_view source) {
    TUTTI_ASSIGN_OR_RETURN(const std::string translated, TranslateSplitPattern(source));
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
    if (code == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("pattern does not compile: ", ErrorText(error)));
    }
    auto pattern = std::unique_ptr<Pattern>(new Pattern(code));
    uint32_t matches_empty = 0;
    pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty != 0) {
      return absl::InvalidArgumentError("pattern can match the empty string");
    }
    // Without just-in-time compilation (a hardened kernel may forbid it) matching is slower, not
    // other.
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return pattern;
  }
  ~Pattern() { pcre2_code_free(code_); }

  // The first match in `text` at or after `begin`: [*match_begin, *match_end), or false.
  absl::StatusOr<bool> Find(std::string_view text, size_t begin, MatchState* state,
                            size_t* match_begin, size_t* match_end) const {
    const int result = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                   begin, PCRE2_NO_UTF_CHECK, state->data, state->context);
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("splitting text at byte ", begin, ": ", ErrorText(result)));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(state->data);
    *match_begin = range[0];
    *match_end = range[1];
    return true;
  }

 private:
  explicit Pattern(pcre2_code* code) : code_(code) {}
  pcre2_code* const code_;
};

Pretokenizer::Pretokenizer(std::vector<std::unique_ptr<Pattern>> patterns, Spaces spaces)
    : patterns_(std::move(patterns)), spaces_(spaces) {}
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

absl::StatusOr<Pretokenizer> Pretokenizer::Create(const std::vector<std::string_view>& sources) {
  std::vector<std::unique_ptr<Pattern>> patterns;
  for (const std::string_view source : sources) {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Pattern> pattern, Pattern::Compile(source));
    patterns.push_back(std::move(pattern));
  }
  return Pretokenizer(std::move(patterns), Spaces::kNone);
}

Pretokenizer Pretokenizer::AtSpaces(Spaces spaces) { return Pretokenizer({}, spaces); }

absl::Status Pretokenizer::SplitAtSpaces(
    std::string_view text, absl::FunctionRef<absl::Status(std::string_view)> piece) const {
  while (!text.empty()) {
    const size_t from = spaces_ == Spaces::kEvery ? 1 : text.find_first_not_of(' ');
    const size_t end = std::min(text.find(' ', from), text.size());
    TUTTI_RETURN_IF_ERROR(piece(text.substr(0, end)));
    text.remove_prefix(end);
  }
  return absl::OkStatus();
}

absl::Status Pretokenizer::Split(
    std::string_view text, absl::FunctionRef<absl::Status(std::string_view)> piece) const {
  if (patterns_.empty() && spaces_ != Spaces::kNone) return SplitAtSpaces(text, piece);
  return SplitFrom(0, text, piece);
}

absl::Status Pretokenizer::SplitFrom(
    size_t level, std::string_view text,
    absl::FunctionRef<absl::Status(std::string_view)> piece) const {
  if (text.empty()) return absl::OkStatus();
  if (level == patterns_.size()) return piece(text);
  MatchState state;
  if (state.data == nullptr || state.context == nullptr) {
    return absl::ResourceExhaustedError("splitting text: no memory for the matcher");
  }
  size_t done = 0;
  while (done < text.size()) {
    size_t begin = 0, end = 0;
    TUTTI_ASSIGN_OR_RETURN(const bool found,
                           patterns_[level]->Find(text, done, &state, &begin, &end));
    if (!found) return SplitFrom(level + 1, text.substr(done), piece);
    if (end <= begin) return absl::InternalError("split pattern matched the empty string");
    TUTTI_RETURN_IF_ERROR(SplitFrom(level + 1, text.substr(done, begin - done), piece));
    TUTTI_RETURN_IF_ERROR(SplitFrom(level + 1, text.substr(begin, end - begin), piece));
    done = end;
  }
  return absl::OkStatus();
}

}  // namespace tutti::text
