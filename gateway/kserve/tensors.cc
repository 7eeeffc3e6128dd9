#include "gateway/kserve/tensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

using inference::InferTensorContents;
using inference::ModelInferRequest;
using InputTensor = ModelInferRequest::InferInputTensor;

// Everything here is little-endian, as the machines that we run on are.
constexpr size_t kLengthBytes = 4;

absl::Status Wrong(const InputTensor& tensor, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(Shortened(tensor.name(), kShownNameBytesMax), " ", what));
}

// The number of elements of the shape; nothing: it is none, or larger than kTensorElementsMax.
std::optional<int64_t> ElementsOf(const InputTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t size : tensor.shape()) {
    if (size < 0 || size > kTensorElementsMax) return std::nullopt;
    elements *= size;
    if (elements > kTensorElementsMax) return std::nullopt;
  }
  return tensor.shape_size() == 0 ? std::nullopt : std::optional(elements);
}

// ---- raw bytes

template <typename T>
ParsedJson Numbers(std::string_view raw, int64_t elements) {
  ParsedJson list(Json::array());
  if (static_cast<int64_t>(raw.size()) != elements * static_cast<int64_t>(sizeof(T))) return list;
  for (int64_t i = 0; i < elements; ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    list->push_back(value);
  }
  return list;
}

ParsedJson Bools(std::string_view raw, int64_t elements) {
  ParsedJson list(Json::array());
  if (static_cast<int64_t>(raw.size()) != elements) return list;
  for (const char byte : raw) list->push_back(byte != 0);
  return list;
}

// Texts, at most one more than `elements`.
ParsedJson Texts(std::string_view raw, int64_t elements) {
  ParsedJson list(Json::array());
  while (raw.size() >= kLengthBytes && static_cast<int64_t>(list->size()) <= elements) {
    uint32_t length = 0;
    std::memcpy(&length, raw.data(), kLengthBytes);
    raw.remove_prefix(kLengthBytes);
    if (length > raw.size()) return ParsedJson(Json::array());
    list->push_back(std::string(raw.substr(0, length)));
    raw.remove_prefix(length);
  }
  const bool fits = raw.empty() || static_cast<int64_t>(list->size()) > elements;
  return fits ? std::move(list) : ParsedJson(Json::array());
}

// A list of another length where the bytes do not fit; null for a type that no tensor of ours has.
ParsedJson FromRaw(const std::string& type, std::string_view raw, int64_t elements) {
  if (type == "BYTES") return Texts(raw, elements);
  if (type == "BOOL") return Bools(raw, elements);
  if (type == "INT32") return Numbers<int32_t>(raw, elements);
  if (type == "UINT32") return Numbers<uint32_t>(raw, elements);
  if (type == "INT64") return Numbers<int64_t>(raw, elements);
  if (type == "UINT64") return Numbers<uint64_t>(raw, elements);
  if (type == "FP32") return Numbers<float>(raw, elements);
  if (type == "FP64") return Numbers<double>(raw, elements);
  return ParsedJson();
}

// ---- typed contents

template <typename Values>
ParsedJson ListOf(const Values& values) {
  ParsedJson list(Json::array());
  for (const auto& value : values) list->push_back(value);
  return list;
}

ParsedJson FromContents(const std::string& type, const InferTensorContents& contents) {
  if (type == "BYTES") return ListOf(contents.bytes_contents());
  if (type == "BOOL") return ListOf(contents.bool_contents());
  if (type == "INT32") return ListOf(contents.int_contents());
  if (type == "UINT32") return ListOf(contents.uint_contents());
  if (type == "INT64") return ListOf(contents.int64_contents());
  if (type == "UINT64") return ListOf(contents.uint64_contents());
  if (type == "FP32") return ListOf(contents.fp32_contents());
  if (type == "FP64") return ListOf(contents.fp64_contents());
  return ParsedJson();
}

// Not counted out one by one: in memory each takes more than its byte on the wire.
int64_t CountContents(const InferTensorContents& contents) {
  return int64_t{contents.bytes_contents_size()} + contents.bool_contents_size() +
         contents.int_contents_size() + contents.uint_contents_size() +
         contents.int64_contents_size() + contents.uint64_contents_size() +
         contents.fp32_contents_size() + contents.fp64_contents_size();
}

// Bytes that are no UTF-8 are left out by one way of writing and replaced by the other.
bool IsUtf8(const Json& value) {
  using Handler = Json::error_handler_t;
  return !value.is_string() || value.dump(-1, ' ', false, Handler::ignore).size() ==
                                   value.dump(-1, ' ', false, Handler::replace).size();
}

absl::StatusOr<ParsedJson> ReadTensor(const ModelInferRequest& request, int index) {
  const InputTensor& tensor = request.inputs(index);
  const std::optional<int64_t> elements = ElementsOf(tensor);
  if (!elements) return Wrong(tensor, "has a shape that no tensor of a request has");
  if (tensor.parameters_size() > 0) {
    return Wrong(tensor,
                 absl::StrCat("has the parameter ",
                              Shortened(tensor.parameters().begin()->first, kShownNameBytesMax),
                              ", which is not served; send its contents"));
  }
  const bool is_raw = request.raw_input_contents_size() > 0;
  if (is_raw && CountContents(tensor.contents()) > 0) {
    return Wrong(tensor, "has contents beside those of raw_input_contents");
  }
  if (!is_raw && CountContents(tensor.contents()) != *elements) {
    return Wrong(tensor, absl::StrCat("has ", CountContents(tensor.contents()),
                                      " elements, its shape says ", *elements));
  }
  ParsedJson values = is_raw
                          ? FromRaw(tensor.datatype(), request.raw_input_contents(index), *elements)
                          : FromContents(tensor.datatype(), tensor.contents());
  if (values->is_null()) {
    return Wrong(tensor, absl::StrCat("is of type ", Shortened(tensor.datatype(), 16),
                                      ", which no tensor of a request is"));
  }
  if (static_cast<int64_t>(values->size()) != *elements) {
    return Wrong(tensor, "has contents that do not fit its type and shape");
  }
  for (const Json& value : *values) {
    if (!IsUtf8(value)) return Wrong(tensor, "has text that is not UTF-8");
  }
  if (*elements == 1) return ParsedJson(std::move((*values)[0]));
  return values;
}

// Numbers as bytes.
template <typename T>
OutputTensor NumberTensor(std::string name, std::string datatype, const std::vector<T>& values) {
  OutputTensor tensor{.name = std::move(name),
                      .datatype = std::move(datatype),
                      .shape = {static_cast<int64_t>(values.size())},
                      .raw = {}};
  tensor.raw.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return tensor;
}

}  // namespace

absl::StatusOr<std::vector<std::pair<std::string, ParsedJson>>> ReadTensors(
    const ModelInferRequest& request) {
  if (request.inputs_size() > kTensorsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("inputs has ", request.inputs_size(), " tensors, the limit is ", kTensorsMax));
  }
  const int raw = request.raw_input_contents_size();
  if (raw > 0 && raw != request.inputs_size()) {
    return absl::InvalidArgumentError(absl::StrCat("raw_input_contents has ", raw, " entries for ",
                                                   request.inputs_size(), " inputs"));
  }
  std::vector<std::pair<std::string, ParsedJson>> tensors;
  std::set<std::string> names;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const InputTensor& tensor = request.inputs(i);
    if (!names.insert(tensor.name()).second) return Wrong(tensor, "is there twice");
    TUTTI_ASSIGN_OR_RETURN(ParsedJson value, ReadTensor(request, i));
    tensors.emplace_back(tensor.name(), std::move(value));
  }
  return tensors;
}

OutputTensor TextTensor(std::string name, const std::vector<std::string>& values) {
  OutputTensor tensor{.name = std::move(name),
                      .datatype = "BYTES",
                      .shape = {static_cast<int64_t>(values.size())},
                      .raw = {}};
  for (const std::string& value : values) {
    const auto length = static_cast<uint32_t>(value.size());
    tensor.raw.append(reinterpret_cast<const char*>(&length), kLengthBytes);
    tensor.raw.append(value);
  }
  return tensor;
}

OutputTensor FloatTensor(std::string name, const std::vector<float>& values) {
  return NumberTensor(std::move(name), "FP32", values);
}

OutputTensor CountTensor(std::string name, const std::vector<uint32_t>& values) {
  return NumberTensor(std::move(name), "UINT32", values);
}

}  // namespace tutti::gateway
