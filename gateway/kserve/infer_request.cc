#include "gateway/kserve/infer_request.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "door/limits.h"
#include "gateway/field_reader.h"
#include "gateway/grammar_fields.h"
#include "gateway/kserve/model_facts.h"
#include "gateway/kserve/sampling_text.h"
#include "gateway/kserve/tensors.h"
#include "gateway/limits.h"
#include "gateway/sampling_fields.h"
#include "gateway/written_json.h"

namespace tutti::gateway {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;

constexpr int64_t kUint32Max = std::numeric_limits<uint32_t>::max();
// vLLM's default, which clients of its backend count on.
constexpr uint32_t kInferTokensDefault = 16;

// Tensors of the ensemble under the names of /v1/completions.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"stop_words", "stop"},
    {"random_seed", "seed"},
    {"min_length", "min_tokens"},
    {"num_return_sequences", "n"},
};
// Objects that say what the answer may be, also as their text. The first is Triton's older name of
// the second.
constexpr std::string_view kOldOutputs = "guided_decoding";
constexpr std::string_view kNewOutputs = "structured_outputs";
constexpr std::string_view kAnswerFormats[] = {kOldOutputs, kNewOutputs, "response_format"};
// The names of tensors with several texts; an empty one is none.
constexpr std::string_view kLists[] = {"stop", "bad_words"};
// Tensors that we do not serve, beside those of kUnserved in common_fields.cc.
constexpr UnservedField kUnservedTensors[] = {
    {"pad_id", "*"},  // what stands behind an output's end
    {"beam_width", "1"},
    {"image"},
    {"embedding_request"},
    {"decoder_text_input"},
    {"prompt_embedding_table"},
    {"prompt_vocab_size"},
    {"prompt_table_extra_id"},
    {"embedding_bias_words"},
    {"embedding_bias_weights"},
    {"lora_name"},
    {"lora_task_id"},
    {"lora_weights"},
    {"lora_config"},
    {"return_log_probs", "false"},
    {"return_context_logits", "false"},
    {"return_generation_logits", "false"},
    {"return_perf_metrics", "false"},
};
// Fields of OpenAI's API that have no meaning here, and what has another place.
constexpr std::string_view kElsewhere[] = {"model", "stream_options", "return_token_ids",
                                           "return_tokens_as_token_ids", "prompt"};
// A wish, and the output tensor that it is for.
constexpr std::pair<std::string_view, std::string_view> kWishes[] = {
    {"return_finish_reason", "finish_reason"},
    {"return_cumulative_logprob", "cumulative_logprob"},
    {"return_logprobs", "logprobs"},
    {"return_num_input_tokens", "num_input_tokens"},
    {"return_num_output_tokens", "num_output_tokens"},
};

bool IsAnswerFormat(std::string_view name) {
  return std::find(std::begin(kAnswerFormats), std::end(kAnswerFormats), name) !=
         std::end(kAnswerFormats);
}

absl::Status Bad(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(name, " ", what));
}

Json ValueOf(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam:
      return parameter.bool_param();
    case InferParameter::kInt64Param:
      return parameter.int64_param();
    case InferParameter::kStringParam:
      return parameter.string_param();
    case InferParameter::kDoubleParam:
      return parameter.double_param();
    case InferParameter::kUint64Param:
      return parameter.uint64_param();
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return nullptr;
}

// Collects the fields of a request, each with the name that the caller has for it.
class Fields {
 public:
  explicit Fields(InferRequest* request) : request_(request) {}

  // `place`: what stands before the name in the caller's words.
  absl::Status Add(const std::string& name, Json given, const std::string& place) {
    ParsedJson owned(std::move(given));
    Json& value = *owned;
    std::string ours = name;
    for (const auto& [theirs, alias] : kAliases) {
      if (name == theirs && place.empty()) ours = std::string(alias);
    }
    for (const std::string_view list : kLists) {
      if (ours == list && value.is_string()) value = Json::array({std::move(value)});
      if (ours == list && value.is_array()) DropEmpty(&value);
    }
    const std::string shown = place + name;
    if (IsAnswerFormat(name)) {
      if (name == kOldOutputs) ours = std::string(kNewOutputs);
      TUTTI_RETURN_IF_ERROR(ReadFormatText(ours, shown, &value));
    }
    // A value of type UINT64: its bits.
    if (ours == "seed" && place.empty() && value.is_number_unsigned()) {
      value = static_cast<int64_t>(value.get<uint64_t>());
    }
    if (std::find(std::begin(kElsewhere), std::end(kElsewhere), ours) != std::end(kElsewhere)) {
      return Bad(shown, "is no field that this service knows");
    }
    if (body_->contains(ours)) return Bad(shown, "is given twice");
    (*body_)[ours] = std::move(value);
    shown_.emplace_back(ours, shown);
    return absl::OkStatus();
  }

  const Json& body() const { return *body_; }
  // The text of those of its members that are objects.
  std::string written() const { return "{" + written_ + "}"; }
  bool Has(const std::string& name) const { return body_->contains(name); }
  // The words of a mistake that was found here.
  absl::Status Explain(const ApiError& error) const {
    return RenameField(absl::InvalidArgumentError(error.message), shown_);
  }
  // Paths for what the service says; `grammar`: of the field that says what the answer may be.
  void SetPaths(const std::string& grammar) {
    for (const auto& [ours, shown] : shown_) {
      const bool outside = ours == "n" || ours == "priority" || ours == "cache_salt" ||
                           ours == "truncate_prompt_tokens";
      request_->paths.emplace_back(ours == "logprobs" ? "sampling.top_logprobs"
                                   : outside          ? ours
                                                      : "sampling." + ours,
                                   shown);
    }
    if (!grammar.empty()) AddGrammarPaths(Shown(grammar), &request_->paths);
    request_->paths.emplace_back("sampling", "");
    request_->paths.emplace_back("text", "text_input");
    request_->paths.emplace_back("request_id", "id");
    request_->paths.emplace_back("model", "model_name");
  }

 private:
  static void DropEmpty(Json* list) {
    ParsedJson kept(Json::array());
    for (Json& value : *list) {
      if (value != "") kept->push_back(std::move(value));
    }
    std::swap(*list, *kept);
  }

  absl::Status ReadFormatText(const std::string& ours, const std::string& shown, Json* value) {
    if (!value->is_string()) return absl::OkStatus();
    const auto text = value->get<std::string>();
    auto parsed = ParseObject(text);
    if (std::holds_alternative<ApiError>(parsed)) return Bad(shown, "is not the text of an object");
    *value = std::move(*std::get<ParsedJson>(parsed));
    absl::StrAppend(&written_, written_.empty() ? "" : ",", "\"", ours, "\":", text);
    return absl::OkStatus();
  }

  // A path of ours as the caller wrote its beginning.
  std::string Shown(const std::string& path) const {
    for (const auto& [ours, shown] : shown_) {
      if (path.starts_with(ours)) return shown + path.substr(ours.size());
    }
    return path;
  }

  InferRequest* const request_;
  ParsedJson body_{Json::object()};
  std::string written_;
  FieldPaths shown_;
};

absl::Status AddParameters(const ModelInferRequest& asked, InferRequest* request, Fields* fields) {
  for (const auto& [name, parameter] : asked.parameters()) {
    const Json value = ValueOf(parameter);
    if (name == "triton_enable_empty_final_response") {
      if (!value.is_boolean()) return Bad(name, "is neither true nor false");
      request->empty_final = value.get<bool>();
    } else if (name == "timeout") {
      if (!value.is_number_integer() || value < 0) return Bad(name, "is not a number of us");
      const int64_t us = std::min<uint64_t>(value.get<uint64_t>(), kTimeoutUsMax);
      if (us > 0) request->timeout = std::chrono::microseconds(us);
    } else if (absl::StartsWith(name, "sequence_")) {
      return Bad(name, "is not served here: requests have no state between them");
    } else {
      TUTTI_RETURN_IF_ERROR(fields->Add(Shortened(name, kShownNameBytesMax), value, "parameters."));
    }
  }
  return absl::OkStatus();
}

absl::Status AddTensors(const ModelInferRequest& asked, Fields* fields) {
  TUTTI_ASSIGN_OR_RETURN(auto tensors, ReadTensors(asked));
  for (auto& [name, owned] : tensors) {
    Json& value = *owned;
    if (!IsInputTensor(name)) {
      return Bad(Shortened(name, kShownNameBytesMax), "is no input tensor of this model");
    }
    if (name != "sampling_parameters") {
      TUTTI_RETURN_IF_ERROR(fields->Add(name, std::move(value), ""));
      continue;
    }
    if (!value.is_string()) return Bad(name, "is not one text");
    TUTTI_ASSIGN_OR_RETURN(ParsedJson sampling,
                           ReadSamplingText(value.get_ref<const std::string&>()));
    for (auto& [key, member] : sampling->items()) {
      // As it is written: the order of a schema's members is that of answers.
      if (IsAnswerFormat(key) && member.is_object()) {
        member = std::string(MemberAsWritten(value.get_ref<const std::string&>(), key));
      }
      TUTTI_RETURN_IF_ERROR(fields->Add(key, std::move(member), "sampling_parameters."));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadOutputs(const ModelInferRequest& asked, InferRequest* request) {
  if (asked.outputs_size() > kTensorsMax) {
    return Bad("outputs",
               absl::StrCat("has ", asked.outputs_size(), " tensors, the limit is ", kTensorsMax));
  }
  for (const auto& output : asked.outputs()) {
    if (!IsOutputTensor(output.name())) {
      return Bad(Shortened(output.name(), kShownNameBytesMax), "is no output tensor of this model");
    }
    for (const auto& [name, value] : output.parameters()) {
      if (name == "binary_data") continue;  // of the protocol's HTTP form
      return Bad(Shortened(output.name(), kShownNameBytesMax),
                 absl::StrCat("has the parameter ", Shortened(name, kShownNameBytesMax),
                              ", which is not served"));
    }
    request->wanted.insert(output.name());
  }
  if (asked.outputs_size() == 0) request->wanted.insert("text_output");
  return absl::OkStatus();
}

// An end of the caller's own is the only one, as the ensemble has it. An id that the model does not
// have, as benchmarks send it, is none.
void ReadEndId(FieldReader* fields, v1::SamplingParams* sampling, int64_t vocabulary) {
  const auto id = fields->Integer("end_id", -1, kUint32Max);
  if (!id.has_value()) return;
  sampling->set_ignore_eos(true);
  if (*id >= 0 && (*id < vocabulary || vocabulary == 0))
    sampling->add_stop_token_ids(static_cast<int32_t>(*id));
}

void ReadLogprobs(FieldReader* fields, InferRequest* request, v1::SamplingParams* sampling) {
  if (const auto top = fields->Integer("logprobs", 0, kUint32Max)) {
    sampling->set_logprobs(true);
    sampling->set_top_logprobs(static_cast<uint32_t>(*top));
  }
  for (const auto& [wish, tensor] : kWishes) {
    if (fields->Bool(wish).value_or(false)) request->wanted.insert(std::string(tensor));
  }
  if (request->wanted.contains("logprobs") || request->wanted.contains("cumulative_logprob")) {
    sampling->set_logprobs(true);
  }
}

// The prompt in front of a whole answer, unless it is not wanted: so both backends have it.
void ReadEcho(FieldReader* fields, bool stream, InferRequest* request) {
  const auto exclude = fields->Bool("exclude_input_in_output");
  if (request->stream && exclude.has_value() && !*exclude) {
    return fields->Fail("exclude_input_in_output", "is false, which streams do not serve");
  }
  request->prepend_input = !exclude.value_or(stream);
}

// What the answer may be, as TensorRT-LLM's ensemble says it. The path of the tensor; empty: none.
std::string ReadGuide(FieldReader* fields, v1::GenerateRequest* call) {
  constexpr char kType[] = "guided_decoding_guide_type", kGuide[] = "guided_decoding_guide";
  const std::string type = fields->Text(kType).value_or("");
  const std::string guide = fields->Text(kGuide).value_or("");
  if (type.empty()) {
    if (!guide.empty()) fields->Fail(kGuide, "needs guided_decoding_guide_type");
    return "";
  }
  if (call->has_grammar()) fields->Fail(kType, "cannot be served beside structured_outputs");
  if (type == "json") {
    call->mutable_grammar()->mutable_json_object();
  } else if (type == "json_schema") {
    call->mutable_grammar()->set_json_schema(ClosedSchemaText(guide));
  } else if (type == "regex") {
    call->mutable_grammar()->set_regex(guide);
  } else if (type == "ebnf_grammar") {
    call->mutable_grammar()->set_ebnf(guide);
  } else {
    fields->Fail(kType, R"(must be "json", "json_schema", "regex" or "ebnf_grammar")");
  }
  return kGuide;
}

// The path of what the answer may be; empty: anything.
std::string ReadFields(FieldReader* fields, const std::string& written, bool in_stream,
                       int64_t vocabulary, InferRequest* request) {
  v1::SamplingParams* sampling = request->call.mutable_sampling();
  const auto text = fields->Text("text_input");
  if (!text.has_value()) fields->Fail("text_input", "is missing");
  request->call.set_text(text.value_or(""));
  ReadSamplingFields(fields, &request->call);
  ReadTextReading(fields, &request->call);
  const bool stream = fields->Bool("stream").value_or(false);
  sampling->set_max_tokens(static_cast<uint32_t>(
      fields->Integer("max_tokens", 0, kUint32Max).value_or(int64_t{kInferTokensDefault})));
  ReadEndId(fields, sampling, vocabulary);
  ReadLogprobs(fields, request, sampling);
  request->stream = in_stream && stream;
  ReadEcho(fields, stream, request);
  const std::string outputs = ReadGrammarFields(fields, written, &request->call);
  const std::string guide = ReadGuide(fields, &request->call);
  for (const UnservedField& field : kUnservedTensors) fields->Refuse(field);
  fields->Refuse({.name = "prompt_logprobs"});
  RefuseUnserved(fields);
  return outputs.empty() ? guide : outputs;
}

}  // namespace

absl::StatusOr<InferRequest> ReadInferRequest(const ModelInferRequest& asked, bool in_stream,
                                              int64_t vocabulary) {
  TUTTI_RETURN_IF_ERROR(RefuseUnknownFields(asked, "the request"));
  TUTTI_RETURN_IF_ERROR(CheckVersion(asked.model_version()));
  // It comes back with every response.
  if (static_cast<int64_t>(asked.id().size()) > door::kRequestIdBytesMax) {
    return Bad("id", absl::StrCat("is longer than ", door::kRequestIdBytesMax, " bytes"));
  }
  InferRequest request;
  request.model = asked.model_name();
  request.id = asked.id();
  request.call.set_model(asked.model_name());
  Fields fields(&request);
  TUTTI_RETURN_IF_ERROR(AddTensors(asked, &fields));
  TUTTI_RETURN_IF_ERROR(AddParameters(asked, &request, &fields));
  if (!in_stream) request.empty_final = false;  // the only response is the last
  TUTTI_RETURN_IF_ERROR(ReadOutputs(asked, &request));
  FieldReader reader(fields.body(), "");
  const std::string grammar =
      ReadFields(&reader, fields.written(), in_stream, vocabulary, &request);
  if (reader.error().has_value()) return fields.Explain(*reader.error());
  fields.SetPaths(grammar);
  return request;
}

}  // namespace tutti::gateway
