#include "text/described_tokens.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/added_token_json.h"
#include "text/limits.h"
#include "text/text_fields.h"
#include "text/text_file.h"

namespace tutti::text {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> kParts = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// The file as an object; an empty one where there is no file.
absl::StatusOr<json> ReadObject(const std::filesystem::path& path, size_t bytes_max) {
  if (!IsThere(path)) return json::object();
  TUTTI_ASSIGN_OR_RETURN(json value, ReadJsonFile(path, bytes_max));
  if (!value.is_object()) return RefuseField(path.string(), "not an object");
  return value;
}

// The text of "<s>", or of {"content": "<s>", ...} as some files write it; empty: neither.
std::string ContentOf(json value) {
  if (value.is_object()) value = value.value("content", json());
  return value.is_string() ? value.get<std::string>() : "";
}

// The texts of all tokens that the object gives a part.
void CollectSpecial(const json& object, absl::flat_hash_set<std::string>* special) {
  for (const std::string_view part : kParts) {
    special->insert(ContentOf(object.value(std::string(part), json())));
  }
  const json more = object.value("additional_special_tokens", json());
  if (!more.is_array()) return;
  for (const json& one : more) special->insert(ContentOf(one));
}

// What is known of the vocabulary and the added tokens so far.
class Known {
 public:
  explicit Known(const TokenizerSpec& spec) {
    for (const auto& [spelled, id] : spec.vocabulary) Insert(spelled, id);
    for (const AddedToken& token : spec.added_tokens) {
      added_.insert(token.content);
      Insert(token.content, token.id);
    }
  }
  bool HasAdded(const std::string& content) const { return added_.contains(content); }
  bool Contradicts(const std::string& content, int64_t id) const {
    const auto by_text = ids_.find(content);
    if (by_text != ids_.end() && by_text->second != id) return true;
    const auto by_id = texts_.find(id);
    return by_id != texts_.end() && by_id->second != content;
  }

 private:
  void Insert(std::string_view text, int64_t id) {
    ids_.emplace(text, id);
    texts_.emplace(id, text);
  }

  absl::flat_hash_set<std::string> added_;
  absl::flat_hash_map<std::string, int64_t> ids_;
  absl::flat_hash_map<int64_t, std::string> texts_;
};

// A token as ReadAddedToken takes it.
struct Described {
  std::string path;
  std::string content;
  int64_t id = 0;
  json value;
};

absl::StatusOr<std::vector<Described>> DescribedInConfig(const json& decoder,
                                                         const std::string& field) {
  if (!decoder.is_object()) return RefuseField(field, "not an object");
  std::vector<Described> found;
  for (const auto& [key, value] : decoder.items()) {
    const std::string path = absl::StrCat(field, ".", key);
    int64_t id = 0;
    if (!absl::SimpleAtoi(key, &id)) return RefuseField(path, "not a token id");
    found.push_back({path, ContentOf(value), id, value});
  }
  return found;
}

absl::StatusOr<std::vector<Described>> DescribedInFile(
    const json& file, const std::string& name, const absl::flat_hash_set<std::string>& special) {
  std::vector<Described> found;
  for (const auto& [content, id] : file.items()) {
    const std::string path = absl::StrCat(name, ".", content);
    if (!id.is_number_integer()) return RefuseField(path, "not a token id");
    found.push_back({path,
                     content,
                     id.get<int64_t>(),
                     {{"content", content}, {"special", special.contains(content)}}});
  }
  return found;
}

// The end of the model's turn, where some token is spelled so.
void AddEnd(const std::string& end, TokenizerSpec* spec) {
  for (const AddedToken& token : spec->added_tokens) {
    if (token.content != end) continue;
    if (std::find(spec->end_of_turn.begin(), spec->end_of_turn.end(), token.id) ==
        spec->end_of_turn.end()) {
      spec->end_of_turn.push_back(token.id);
    }
  }
}

}  // namespace

absl::Status AddDescribedTokens(const std::filesystem::path& model_dir, const json& config,
                                bool vocabulary_decides, TokenizerSpec* spec) {
  TUTTI_ASSIGN_OR_RETURN(
      const json map, ReadObject(model_dir / "special_tokens_map.json", kTextConfigFileBytesMax));
  const json decoder = config.value("added_tokens_decoder", json());
  std::vector<Described> described;
  if (!decoder.is_null()) {
    TUTTI_ASSIGN_OR_RETURN(
        described,
        DescribedInConfig(decoder,
                          (model_dir / "tokenizer_config.json: added_tokens_decoder").string()));
  } else {
    const std::filesystem::path path = model_dir / "added_tokens.json";
    TUTTI_ASSIGN_OR_RETURN(const json file, ReadObject(path, kTextConfigFileBytesMax));
    absl::flat_hash_set<std::string> special;
    CollectSpecial(config, &special);
    CollectSpecial(map, &special);
    TUTTI_ASSIGN_OR_RETURN(described, DescribedInFile(file, path.string(), special));
  }
  if (!described.empty()) {
    const Known known(*spec);
    for (const Described& one : described) {
      if (known.HasAdded(one.content)) continue;
      if (vocabulary_decides && known.Contradicts(one.content, one.id)) continue;
      TUTTI_RETURN_IF_ERROR(ReadAddedToken(one.value, one.path, one.id, spec));
    }
  }
  const std::string end = ContentOf(config.value("eos_token", json()));
  AddEnd(end.empty() ? ContentOf(map.value("eos_token", json())) : end, spec);
  return absl::OkStatus();
}

}  // namespace tutti::text
