#include "model/checkpoint_index.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "text/text_file.h"

namespace tutti::model {
namespace {

using nlohmann::json;

// A shard is a file beside the index: a name with a directory in it would reach files outside of
// the checkpoint.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Takes the weight_map as it comes and builds nothing of the rest, which is counted only.
class IndexReader final : public nlohmann::json_sax<json> {
 public:
  ShardMap& shards() { return shards_; }
  bool has_map() const { return has_map_; }
  const std::string& error() const { return error_; }

  bool null() override { return Other(); }
  bool boolean(bool) override { return Other(); }
  bool number_integer(number_integer_t) override { return Other(); }
  bool number_unsigned(number_unsigned_t) override { return Other(); }
  bool number_float(number_float_t, const string_t&) override { return Other(); }
  bool binary(binary_t&) override { return Other(); }
  bool start_array(size_t) override { return Open(false); }
  bool end_array() override { return Close(); }
  bool start_object(size_t) override { return Open(true); }
  bool end_object() override { return Close(); }

  bool string(string_t& value) override {
    if (!in_map_ || depth_ != 2) return Count(value.size());
    if (!IsPlainName(value)) return NoFile();
    shards_[value].push_back(key_);
    if (shards_.size() <= kShardFilesMax) return true;
    return Fail(absl::StrCat("more than the limit of ", kShardFilesMax, " shards"));
  }

  bool key(string_t& name) override {
    if (depth_ == 1) {
      if (name == "weight_map" && has_map_) return Fail("key \"weight_map\" twice");
      in_map_ = name == "weight_map";
      has_map_ |= in_map_;
    } else if (in_map_ && depth_ == 2) {
      if (static_cast<int64_t>(names_.size()) >= kTensorsMax) {
        return Fail(absl::StrCat("weight_map has more tensors than the limit of ", kTensorsMax));
      }
      if (!names_.insert(name).second) return Fail(absl::StrCat("key ", Quoted(name), " twice"));
      key_ = std::move(name);
      return true;
    }
    return Count(name.size());
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return Fail(absl::StrCat("not JSON at byte ", position,
                             "; it is damaged or not whole: fetch it again"));
  }

 private:
  bool Fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  bool NoFile() {
    return Fail(
        absl::StrCat("weight_map entry ", Quoted(key_), " does not name a file beside the index"));
  }

  bool NoMap() { return Fail("weight_map is missing or not an object"); }

  // One more value outside of the map.
  bool Count(size_t characters) {
    metadata_ += 1 + static_cast<int64_t>(characters);
    if (metadata_ <= kIndexMetadataMax) return true;
    return Fail(absl::StrCat("more than the limit of ", kIndexMetadataMax,
                             " characters and values beside weight_map"));
  }

  bool Other() {
    if (depth_ == 0 || (in_map_ && depth_ == 1)) return NoMap();
    return in_map_ ? NoFile() : Count(0);
  }

  bool Open(bool is_object) {
    if (depth_ == 0 && !is_object) return NoMap();
    if (in_map_ && depth_ == 1 && !is_object) return NoMap();
    if (in_map_ && depth_ > 1) return NoFile();
    if (++depth_ > kJsonDepthMax) return Fail(absl::StrCat("nested deeper than ", kJsonDepthMax));
    return Count(0);
  }

  bool Close() {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }

  int depth_ = 0;
  bool in_map_ = false;  // the innermost member of the root is weight_map
  bool has_map_ = false;
  std::string key_;  // of the map
  absl::flat_hash_set<std::string> names_;
  int64_t metadata_ = 0;
  ShardMap shards_;
  std::string error_;
};

}  // namespace

absl::StatusOr<ShardMap> ParseCheckpointIndex(std::string_view text, const std::string& path) {
  const auto invalid = [&](std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(why)));
  };
  if (static_cast<int64_t>(text.size()) > kIndexBytesMax) {
    return invalid(absl::StrCat(text.size(), " bytes, more than the limit of ", kIndexBytesMax));
  }
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return invalid(absl::StrCat("not JSON at byte ", nul + 1, ", which is zero"));
  }
  IndexReader reader;
  if (!json::sax_parse(text.begin(), text.end(), &reader)) return invalid(reader.error());
  if (!reader.has_map()) return invalid("weight_map is missing or not an object");
  if (reader.shards().empty()) return invalid("weight_map is empty");
  return std::move(reader.shards());
}

absl::StatusOr<ShardMap> LoadCheckpointIndex(const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(const std::string text, text::ReadTextFile(path, kIndexBytesMax));
  return ParseCheckpointIndex(text, path);
}

}  // namespace tutti::model
