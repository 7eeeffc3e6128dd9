#include "model/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/json_document.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

struct StoredTypeRow {
  StoredType type;
  std::string_view name;
  int64_t bytes;
};

constexpr StoredTypeRow kStoredTypes[] = {
    {StoredType::kBool, "BOOL", 1},      {StoredType::kU8, "U8", 1},
    {StoredType::kI8, "I8", 1},          {StoredType::kF8E5M2, "F8_E5M2", 1},
    {StoredType::kF8E4M3, "F8_E4M3", 1}, {StoredType::kF8E8M0, "F8_E8M0", 1},
    {StoredType::kI16, "I16", 2},        {StoredType::kU16, "U16", 2},
    {StoredType::kF16, "F16", 2},        {StoredType::kBF16, "BF16", 2},
    {StoredType::kI32, "I32", 4},        {StoredType::kU32, "U32", 4},
    {StoredType::kF32, "F32", 4},        {StoredType::kF64, "F64", 8},
    {StoredType::kI64, "I64", 8},        {StoredType::kU64, "U64", 8},
    {StoredType::kC64, "C64", 8},
};

const StoredTypeRow& RowOf(StoredType type) { return kStoredTypes[static_cast<size_t>(type)]; }

// Walks the header value by value and fills the table, without a document in between: a header may
// have 100 MB.
//
//   { "__metadata__": {"key": "text", ...},
//     "name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, ... }
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(int64_t data_begin) : data_begin_(data_begin) {}

  std::vector<TensorInfo>& tensors() { return tensors_; }
  const std::string& error() const { return error_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_float(number_float_t, const string_t&) override { return Unexpected("a fraction"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return Unexpected("a number beyond 2^63");
    const auto number = static_cast<int64_t>(value);
    if (state_ == State::kShape) {
      if (current_.shape.size() >= kTensorRankMax) {
        return Fail(absl::StrCat("more than ", kTensorRankMax, " dimensions"));
      }
      current_.shape.push_back(number);
      return true;
    }
    if (state_ == State::kOffsets && offset_count_ < 2) {
      offsets_[offset_count_++] = number;
      return true;
    }
    return Unexpected("a number");
  }

  bool string(string_t& text) override {
    if (state_ == State::kMetadata) return true;
    if (state_ != State::kTensor || field_ != Field::kDType) return Unexpected("a string");
    const auto type = StoredTypeFromName(text);
    if (!type.has_value()) return Fail(absl::StrCat("unknown dtype ", Quoted(text)));
    current_.dtype = *type;
    return true;
  }

  bool start_object(size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
      return true;
    }
    if (state_ != State::kTop) return Unexpected("an object");
    if (current_.name == "__metadata__") {
      state_ = State::kMetadata;
      return true;
    }
    state_ = State::kTensor;
    seen_fields_ = 0;
    return true;
  }

  bool key(string_t& name) override {
    if (state_ == State::kTop) {
      if (static_cast<int64_t>(names_.size()) >= kTensorsMax) {
        return Fail(absl::StrCat("more than ", kTensorsMax, " tensors"));
      }
      current_ = TensorInfo();
      current_.name = name;
      offset_count_ = 0;
      if (!names_.insert(name).second) return Fail("listed twice");
      return true;
    }
    if (state_ == State::kMetadata) {
      if (!metadata_keys_.insert(name).second) {
        return Fail(absl::StrCat("key ", Quoted(name), " twice"));
      }
      return true;
    }
    for (const auto& [field, field_name] : kFields) {
      if (name != field_name) continue;
      const unsigned bit = 1u << static_cast<unsigned>(field);
      if ((seen_fields_ & bit) != 0) return Fail(absl::StrCat("key ", Quoted(name), " twice"));
      seen_fields_ |= bit;
      field_ = field;
      return true;
    }
    return Fail(absl::StrCat("unknown key ", Quoted(name)));
  }

  bool start_array(size_t) override {
    if (state_ == State::kTensor && field_ == Field::kShape) {
      state_ = State::kShape;
    } else if (state_ == State::kTensor && field_ == Field::kOffsets) {
      state_ = State::kOffsets;
    } else {
      return Unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (state_ == State::kOffsets && offset_count_ != 2) return Fail("data_offsets must be two");
    state_ = State::kTensor;
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTop) {
      state_ = State::kEnd;
      return true;
    }
    if (state_ == State::kTensor && !FinishTensor()) return false;
    state_ = State::kTop;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    if (error_.empty()) error_ = absl::StrCat("header is not JSON at byte ", position);
    return false;
  }

 private:
  enum class State { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };
  enum class Field : unsigned { kDType, kShape, kOffsets };
  static constexpr std::pair<Field, std::string_view> kFields[] = {
      {Field::kDType, "dtype"}, {Field::kShape, "shape"}, {Field::kOffsets, "data_offsets"}};

  bool Fail(const std::string& why) {
    if (!error_.empty()) return false;
    error_ =
        state_ == State::kStart ? why : absl::StrCat("tensor ", Quoted(current_.name), ": ", why);
    return false;
  }

  bool Unexpected(const char* what) {
    if (state_ == State::kStart) return Fail("header is not a JSON object");
    return Fail(absl::StrCat(what, " where the format has none"));
  }

  bool FinishTensor() {
    if (seen_fields_ != 0b111) return Fail("needs dtype, shape and data_offsets");
    int64_t bytes = StoredTypeBytes(current_.dtype);
    for (int64_t size : current_.shape) {
      if (__builtin_mul_overflow(bytes, size, &bytes)) return Fail("shape overflows");
    }
    const auto [begin, end] = std::pair(offsets_[0], offsets_[1]);
    if (begin > end) return Fail(absl::StrCat("data_offsets ", begin, " > ", end));
    if (end - begin != bytes) {
      return Fail(absl::StrCat("data_offsets span ", end - begin, " bytes, shape ",
                               current_.ShapeText(), " of ",
                               std::string(StoredTypeName(current_.dtype)), " needs ", bytes));
    }
    if (__builtin_add_overflow(begin, data_begin_, &current_.offset)) {
      return Fail("data_offsets overflow");
    }
    current_.bytes = bytes;
    tensors_.push_back(std::move(current_));
    return true;
  }

  const int64_t data_begin_;
  std::vector<TensorInfo> tensors_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_keys_;
  State state_ = State::kStart;
  Field field_ = Field::kDType;
  unsigned seen_fields_ = 0;
  TensorInfo current_;
  int64_t offsets_[2] = {};
  int offset_count_ = 0;
  std::string error_;
};

// The tensors must follow each other without gap or overlap and end with the file.
absl::Status CheckLayout(std::vector<TensorInfo>& tensors, int64_t data_begin, int64_t file_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  int64_t at = data_begin;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset != at) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quoted(tensor.name), ": begins at byte ", tensor.offset,
          tensor.offset < at ? ", inside the tensor before it, which ends at "
                             : ", leaving a gap after the tensor before it, which ends at ",
          at));
    }
    // Cannot wrap: offset + bytes was computed from an int64 end, and data_begin is at most 100 MB.
    if (__builtin_add_overflow(at, tensor.bytes, &at) || at > file_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), ": needs ",
                                                     tensor.bytes, " bytes from byte ",
                                                     tensor.offset, ", the file has ", file_bytes));
    }
  }
  if (at != file_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensors end at byte ", at, ", the file has ", file_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t StoredTypeBytes(StoredType type) { return RowOf(type).bytes; }

std::string_view StoredTypeName(StoredType type) { return RowOf(type).name; }

std::optional<StoredType> StoredTypeFromName(std::string_view name) {
  for (const StoredTypeRow& row : kStoredTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

StoredType StoredTypeOf(DType type) {
  switch (type) {
    case DType::kF32:
      return StoredType::kF32;
    case DType::kBF16:
      return StoredType::kBF16;
    case DType::kF16:
      break;
  }
  return StoredType::kF16;
}

std::optional<DType> ComputeType(StoredType type) {
  for (DType candidate : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (StoredTypeOf(candidate) == type) return candidate;
  }
  return std::nullopt;
}

std::string TensorInfo::ShapeText() const {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<int64_t> SafetensorsHeaderBytes(std::string_view prefix, int64_t file_bytes) {
  if (file_bytes < kSafetensorsPrefixBytes ||
      static_cast<int64_t>(prefix.size()) < kSafetensorsPrefixBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", file_bytes, " bytes, too short for the length of its header"));
  }
  uint64_t length = 0;
  for (int i = 0; i < kSafetensorsPrefixBytes; ++i) {
    length |= static_cast<uint64_t>(static_cast<unsigned char>(prefix[i])) << (8 * i);
  }
  if (length > static_cast<uint64_t>(kSafetensorsHeaderBytesMax)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header length ", length, " is more than the limit of ", kSafetensorsHeaderBytesMax));
  }
  if (length > static_cast<uint64_t>(file_bytes - kSafetensorsPrefixBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("header length ", length, " is more than the file's ", file_bytes, " bytes"));
  }
  return static_cast<int64_t>(length);
}

absl::StatusOr<std::vector<TensorInfo>> ParseSafetensorsHeader(std::string_view header,
                                                               int64_t file_bytes) {
  const int64_t data_begin = kSafetensorsPrefixBytes + static_cast<int64_t>(header.size());
  HeaderReader reader(data_begin);
  // The format wants the brace first; it may be padded behind, not before.
  if (header.empty() || header.front() != '{') {
    return absl::InvalidArgumentError("header is not a JSON object");
  }
  // The parser would take it for the end.
  if (const size_t nul = header.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("header is not JSON at byte ", nul + 1, ", which is zero"));
  }
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &reader)) {
    return absl::InvalidArgumentError(reader.error());
  }
  std::vector<TensorInfo> tensors = std::move(reader.tensors());
  TUTTI_RETURN_IF_ERROR(CheckLayout(tensors, data_begin, file_bytes));
  return tensors;
}

std::string MakeSafetensorsHeader(const std::vector<TensorInfo>& tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  int64_t at = 0;
  for (const TensorInfo& tensor : tensors) {
    absl::StrAppend(&text, ",", nlohmann::json(tensor.name).dump(), R"(:{"dtype":")",
                    std::string(StoredTypeName(tensor.dtype)), R"(","shape":[)",
                    absl::StrJoin(tensor.shape, ","), R"(],"data_offsets":[)", at, ",",
                    at + tensor.bytes, "]}");
    at += tensor.bytes;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string out;
  for (int i = 0; i < kSafetensorsPrefixBytes; ++i) {
    out.push_back(static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i)));
  }
  return out + text;
}

}  // namespace tutti::model
