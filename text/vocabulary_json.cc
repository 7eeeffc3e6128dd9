#include "text/vocabulary_json.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "text/limits.h"

namespace tutti::text {
namespace {

using nlohmann::json;

// Receives the parser's events. Returning false ends the parse with error_.
class VocabularySax {
 public:
  VocabularySax(VocabularyJson* out, json* rest, bool root_is_vocabulary)
      : out_(out), rest_(rest), root_is_vocabulary_(root_is_vocabulary) {}

  bool null() { return Scalar(nullptr); }
  bool boolean(bool value) { return Scalar(value); }
  bool number_float(double value, const std::string&) { return Scalar(value); }
  bool binary(json::binary_t&) { return Fail("binary value"); }
  bool number_unsigned(uint64_t value) {
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    return value > kMax ? Fail(absl::StrCat("number ", value)) : number_integer(value);
  }
  bool number_integer(int64_t value) {
    if (place_ != kVocabulary) return Scalar(value);
    out_->vocabulary.emplace_back(std::move(key_), value);
    return true;
  }
  bool string(std::string& value) {
    if (place_ == kMerges) return MergeLine(value);
    if (place_ == kMergePair) return MergePart(std::move(value));
    return Scalar(std::move(value));
  }
  bool key(std::string& value) {
    key_ = std::move(value);
    if (place_ == kDocument && nodes_.back()->contains(key_)) {
      return Fail(absl::StrCat("member \"", key_, "\" given twice"));
    }
    return true;
  }

  bool start_object(size_t) {
    const bool at_vocabulary = root_is_vocabulary_ ? nodes_.empty() : InModel("vocab");
    if (place_ == kDocument && at_vocabulary) {
      if (std::exchange(out_->has_vocabulary, true)) return Fail("model.vocab given twice");
      place_ = kVocabulary;
      return true;
    }
    return Open(json::object());
  }
  bool end_object() {
    if (place_ == kVocabulary) {
      place_ = kDocument;
      return true;
    }
    return Close();
  }
  bool start_array(size_t) {
    if (place_ == kMerges) {
      place_ = kMergePair;
      pair_.clear();
      return true;
    }
    if (place_ == kDocument && InModel("merges")) {
      if (std::exchange(out_->has_merges, true)) return Fail("model.merges given twice");
      place_ = kMerges;
      return true;
    }
    return Open(json::array());
  }
  bool end_array() {
    if (place_ == kMerges) {
      place_ = kDocument;
      return true;
    }
    if (place_ != kMergePair) return Close();
    place_ = kMerges;
    if (pair_.size() != 2) return Fail(absl::StrCat(MergeName(), " has ", pair_.size(), " parts"));
    out_->merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
    return true;
  }

  template <typename Exception>
  bool parse_error(size_t position, const std::string&, const Exception&) {
    return Fail(absl::StrCat("not valid JSON at byte ", position,
                             "; it is damaged or not whole: fetch it again"));
  }

  const std::string& error() const { return error_; }

 private:
  enum Place { kDocument, kVocabulary, kMerges, kMergePair };

  bool Fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }
  std::string MergeName() const { return absl::StrCat("model.merges[", out_->merges.size(), "]"); }

  // Whether the value that comes next is member `name` of the document's "model".
  bool InModel(std::string_view name) const {
    return nodes_.size() == 2 && in_model_ && nodes_.back()->is_object() && key_ == name;
  }

  bool Scalar(json value) {
    if (place_ == kVocabulary)
      return Fail(absl::StrCat("id of token \"", key_, "\" is not an integer"));
    if (place_ != kDocument) return Fail(absl::StrCat(MergeName(), " is not a pair of strings"));
    if (nodes_.empty()) return Fail("not an object");
    Insert(std::move(value));
    return true;
  }
  json* Insert(json value) {
    json* parent = nodes_.back();
    if (parent->is_array()) {
      parent->push_back(std::move(value));
      return &parent->back();
    }
    return &((*parent)[key_] = std::move(value));
  }
  bool Open(json value) {
    if (place_ == kVocabulary)
      return Fail(absl::StrCat("id of token \"", key_, "\" is not an integer"));
    if (place_ != kDocument) return Fail(absl::StrCat(MergeName(), " is not a pair of strings"));
    if (nodes_.size() >= kTextJsonDepthMax) {
      return Fail(absl::StrCat("nests deeper than ", kTextJsonDepthMax));
    }
    if (nodes_.empty()) {
      if (!value.is_object() || root_is_vocabulary_) return Fail("not an object");
      *rest_ = std::move(value);
      nodes_.push_back(rest_);
      return true;
    }
    if (nodes_.size() == 1) in_model_ = key_ == "model";
    nodes_.push_back(Insert(std::move(value)));
    return true;
  }
  bool Close() {
    nodes_.pop_back();
    return true;
  }

  bool MergeLine(const std::string& line) {
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
      return Fail(absl::StrCat(MergeName(), " is not two tokens with a space between"));
    }
    out_->merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    return true;
  }
  bool MergePart(std::string part) {
    if (pair_.size() == 2) return Fail(absl::StrCat(MergeName(), " has more than 2 parts"));
    pair_.push_back(std::move(part));
    return true;
  }

  VocabularyJson* const out_;
  json* const rest_;
  const bool root_is_vocabulary_;
  Place place_ = kDocument;
  // Open objects and arrays of the document. Pointers stay valid: only the innermost one grows.
  std::vector<json*> nodes_;
  bool in_model_ = false;
  std::string key_;
  std::vector<std::string> pair_;
  std::string error_;
};

absl::StatusOr<VocabularyJson> Parse(std::string_view text, json* rest, bool root_is_vocabulary) {
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("not valid JSON: a zero byte at ", nul));
  }
  VocabularyJson out;
  VocabularySax sax(&out, rest, root_is_vocabulary);
  if (!json::sax_parse(text.begin(), text.end(), &sax)) {
    return absl::InvalidArgumentError(sax.error());
  }
  return out;
}

}  // namespace

absl::StatusOr<VocabularyJson> ParseVocabularyJson(std::string_view text, json* rest) {
  return Parse(text, rest, /*root_is_vocabulary=*/false);
}

absl::StatusOr<VocabularyJson> ParseVocabJson(std::string_view text) {
  json none;
  return Parse(text, &none, /*root_is_vocabulary=*/true);
}

}  // namespace tutti::text
