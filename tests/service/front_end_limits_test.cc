// Every limit of a request, through every front end that has the field: at the limit it is taken,
// beyond it is refused under the front end's own name for it. The limits are the coordinator's
// (request_limits.h); a front end without a field says so here, and must not take it.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "coordinator/model_testing.h"
#include "coordinator/service/limits.h"
#include "coordinator/service/request_builder.h"
#include "coordinator/service/request_limits.h"
#include "door/limits.h"
#include "gateway/kserve/infer_request.h"
#include "gateway/kserve/infer_testing.h"
#include "gateway/openai/generation_request.h"
#include "gateway/service_error.h"
#include "gateway/vllm/engine_request.h"
#include "text/limits.h"

namespace tutti {
namespace {

using coordinator::RequestFieldLimit;
using gateway::Json;
using Kind = RequestFieldLimit::Kind;

constexpr char kNone[] = "";  // the front end has no such field
// So many times a limit is tried, too, unless no message could hold it.
constexpr int64_t kFar = 1000, kFarBytesMax = 4 << 20;

// The answer of a front end to a request with one field set to a value; nothing: its type has no
// such value.
using Said = std::optional<absl::Status>;

const coordinator::ServedModel& Model() {
  static const auto* const model = coordinator::LoadDemoModel().release();
  return *model;
}

absl::Status Build(const v1::GenerateRequest& request) {
  return coordinator::BuildRequest(request, Model()).status();
}

// {"a": {"b": value}} for "a.b".
Json Nest(const std::string& path, const Json& value) {
  const size_t dot = path.find('.');
  if (dot == std::string::npos) return Json{{path, value}};
  return Json{{path.substr(0, dot), Nest(path.substr(dot + 1), value)}};
}

template <typename Message>
bool ReadMessage(const Json& json, Message* message) {
  return google::protobuf::util::JsonStringToMessage(json.dump(), message).ok();
}

Said TryInference(const std::string& name, const Json& value) {
  v1::GenerateRequest request;
  Json json = Nest(name, value);
  if (name != "text") json["text"] = "hello";
  if (name == "sampling.top_logprobs") json["sampling"]["logprobs"] = true;
  if (!ReadMessage(json, &request)) return std::nullopt;
  return Build(request);
}

Said TryCompletions(const std::string& name, const Json& value) {
  Json json = {{name, value}};
  if (name != "prompt") json["prompt"] = "hello";
  auto read = gateway::ReadCompletionRequest(json);
  if (const auto* error = std::get_if<gateway::ApiError>(&read)) {
    return absl::InvalidArgumentError(error->message);
  }
  const auto& request = std::get<gateway::GenerationRequest>(read);
  const absl::Status status = Build(request.calls[0]);
  if (status.ok()) return status;
  return absl::Status(status.code(), gateway::FromStatus(status, request.names, 0).message);
}

Said TryInfer(const inference::ModelInferRequest& asked) {
  const auto request = gateway::ReadInferRequest(asked, /*in_stream=*/true, 1000);
  if (!request.ok()) return request.status();
  return gateway::RenameField(Build(request->call), request->paths);
}

// The JSON of Triton's vLLM backend.
Said TryKserve(const std::string& name, const Json& value) {
  if (name == "text_input") return TryInfer(gateway::Asking(value.get<std::string>()));
  auto asked = gateway::Asking("hello");
  if (name == "id") {
    asked.set_id(value.get<std::string>());
  } else {
    gateway::AddTexts("sampling_parameters", {Json{{name, value}}.dump()}, &asked);
  }
  return TryInfer(asked);
}

// The tensors of TensorRT-LLM's ensemble.
Said TryEnsemble(const std::string& name, const Json& value) {
  if (name == "text_input" || name == "id") return TryKserve(name, value);
  auto asked = gateway::Asking("hello");
  if (value.is_array()) {
    std::vector<std::string> texts;
    for (const Json& one : value)
      texts.push_back(one.is_string() ? one.get<std::string>() : one.dump());
    gateway::AddTexts(name, texts, &asked);
  } else if (!value.is_number()) {
    gateway::AddTexts(name, {value.is_string() ? value.get<std::string>() : value.dump()}, &asked);
  } else if (value.is_number_float()) {
    gateway::AddNumber(name, "FP32", value.get<float>(), &asked);
  } else {
    gateway::AddNumber(name, "INT64", value.get<int64_t>(), &asked);
  }
  return TryInfer(asked);
}

Said TryEngine(const std::string& name, const Json& value) {
  vllm::grpc::engine::GenerateRequest asked;
  Json json = Nest(name, value);
  if (name != "text") json["text"] = "hello";
  if (!ReadMessage(json, &asked)) return std::nullopt;
  const auto request = gateway::ReadEngineRequest(asked);
  if (!request.ok()) return request.status();
  return gateway::RenameField(Build(*request), gateway::EnginePaths());
}

// Whether the words have the name, not as a part of a longer one.
bool IsNamed(const std::string& words, const std::string& name) {
  const auto is_letter = [&words](size_t at) {
    return at < words.size() && (absl::ascii_isalnum(words[at]) || words[at] == '_');
  };
  for (size_t at = words.find(name); at != std::string::npos; at = words.find(name, at + 1)) {
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + name.size())) return true;
  }
  return false;
}

struct FrontEnd {
  std::string name;
  std::function<Said(const std::string& name, const Json& value)> ask;
  bool zero_is_unset = false;
};

const std::vector<FrontEnd>& FrontEnds() {
  static const auto* const all = new std::vector<FrontEnd>{{"tutti.v1", TryInference},
                                                           {"completions", TryCompletions},
                                                           {"KServe", TryKserve},
                                                           {"ensemble", TryEnsemble},
                                                           {"VllmEngine", TryEngine, true}};
  return *all;
}

// The field in each front end, in their order.
const std::map<std::string, std::vector<std::string>>& Names() {
  const auto sampling = [](const std::string& name, const std::string& ensemble, bool engine) {
    return std::vector<std::string>{"sampling." + name, name, name, ensemble,
                                    engine ? "sampling_params." + name : kNone};
  };
  static const auto* const names = new std::map<std::string, std::vector<std::string>>{
      {"GenerateRequest.request_id", {"request_id", kNone, "id", "id", "request_id"}},
      {"GenerateRequest.text", {"text", "prompt", "text_input", "text_input", "text"}},
      {"GenerateRequest.n", {"n", "n", "n", "num_return_sequences", "sampling_params.n"}},
      {"GenerateRequest.priority", {"priority", "priority", "priority", kNone, kNone}},
      {"GenerateRequest.tenant", {kNone, kNone, kNone, kNone, kNone}},  // tenant.h; of the key
      {"GenerateRequest.cache_salt", {"cache_salt", "cache_salt", "cache_salt", kNone, kNone}},
      {"SamplingParams.max_tokens", sampling("max_tokens", "max_tokens", true)},
      {"SamplingParams.temperature", sampling("temperature", "temperature", true)},
      {"SamplingParams.top_k", sampling("top_k", "top_k", true)},
      {"SamplingParams.top_p", sampling("top_p", "top_p", true)},
      {"SamplingParams.min_p", sampling("min_p", kNone, true)},
      {"SamplingParams.repetition_penalty",
       sampling("repetition_penalty", "repetition_penalty", true)},
      {"SamplingParams.presence_penalty", sampling("presence_penalty", "presence_penalty", true)},
      {"SamplingParams.frequency_penalty",
       sampling("frequency_penalty", "frequency_penalty", true)},
      {"SamplingParams.logit_bias", sampling("logit_bias", kNone, true)},
      {"SamplingParams.stop", sampling("stop", "stop_words", true)},
      {"SamplingParams.stop_token_ids", sampling("stop_token_ids", kNone, true)},
      {"SamplingParams.top_logprobs",
       {"sampling.top_logprobs", "logprobs", "logprobs", kNone, "sampling_params.logprobs"}},
      {"SamplingParams.min_tokens", sampling("min_tokens", "min_length", true)},
      {"SamplingParams.bad_words", sampling("bad_words", "bad_words", false)},
      {"SamplingParams.allowed_token_ids", sampling("allowed_token_ids", kNone, false)},
  };
  return *names;
}

// A row of the table: a field, and a value within its limit or beyond it.
struct Cell {
  std::string field;
  Json value;
  bool is_within = false;
};

Json ListOf(const std::string& field, int64_t count) {
  Json list = Json::array();
  if (field == "SamplingParams.logit_bias") {
    list = Json::object();
    for (int64_t i = 0; i < count; ++i) list[absl::StrCat(i)] = 1;
    return list;
  }
  const bool texts = field == "SamplingParams.stop" || field == "SamplingParams.bad_words";
  for (int64_t i = 0; i < count; ++i) list.push_back(texts ? Json(absl::StrCat("w", i)) : Json(0));
  return list;
}

void AddValues(const RequestFieldLimit& limit, std::vector<Cell>* cells) {
  const std::string field(limit.field);
  const auto* const type = limit.field.starts_with("Sampling") ? v1::SamplingParams::descriptor()
                                                               : v1::GenerateRequest::descriptor();
  const auto* const described = type->FindFieldByName(field.substr(field.find('.') + 1));
  if (described->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_FLOAT) {
    const auto low = static_cast<float>(limit.low), high = static_cast<float>(limit.high);
    cells->push_back({field, high, true});
    cells->push_back({field, std::nextafter(high, INFINITY), false});
    cells->push_back({field, high * kFar, false});
    cells->push_back({field, low, !limit.low_open});
    if (limit.low_open) cells->push_back({field, std::nextafter(low, INFINITY), true});
    cells->push_back({field, std::nextafter(low, -INFINITY), false});
    return;
  }
  const auto low = static_cast<int64_t>(limit.low), high = static_cast<int64_t>(limit.high);
  cells->push_back({field, high, true});
  cells->push_back({field, high + 1, false});
  cells->push_back({field, high * kFar, false});
  if (low < 0) cells->push_back({field, low, true});
  if (low < 0) cells->push_back({field, low - 1, false});
}

std::vector<Cell> MakeCells() {
  std::vector<Cell> cells;
  for (const RequestFieldLimit& limit : coordinator::RequestFieldLimits()) {
    const std::string field(limit.field);
    if (!Names().contains(field)) continue;
    const auto high = static_cast<int64_t>(limit.high);
    if (limit.kind == Kind::kValue) AddValues(limit, &cells);
    if (limit.kind == Kind::kBytes) {
      cells.push_back({field, std::string(static_cast<size_t>(high), 'a'), true});
      cells.push_back({field, std::string(static_cast<size_t>(high) + 1, 'a'), false});
      if (high <= kFarBytesMax / kFar) {
        cells.push_back({field, std::string(static_cast<size_t>(high * kFar), 'a'), false});
      }
    }
    if (limit.kind == Kind::kCount || (limit.kind == Kind::kId && high > 0)) {
      cells.push_back({field, ListOf(field, high), true});
      cells.push_back({field, ListOf(field, high + 1), false});
    }
  }
  // One entry of a list, and ids.
  for (const auto& [field, bytes] : std::map<std::string, int64_t>{
           {"SamplingParams.stop", text::kStopStringBytesMax},
           {"SamplingParams.bad_words", coordinator::kBadWordBytesMax}}) {
    cells.push_back({field, Json::array({std::string(static_cast<size_t>(bytes), 'x')}), true});
    cells.push_back(
        {field, Json::array({std::string(static_cast<size_t>(bytes) + 1, 'x')}), false});
  }
  const int64_t ids = Model().config.vocab_size;
  for (const char* field : {"SamplingParams.stop_token_ids", "SamplingParams.allowed_token_ids"}) {
    cells.push_back({field, Json::array({ids - 1}), true});
    cells.push_back({field, Json::array({ids}), false});
    cells.push_back({field, Json::array({-1}), false});
  }
  const float most = door::kLogitBiasValueMax;
  for (const float sign : {1.f, -1.f}) {
    cells.push_back({"SamplingParams.logit_bias", Json{{"3", sign * most}}, true});
    cells.push_back({"SamplingParams.logit_bias", Json{{"3", sign * (most + 0.5f)}}, false});
  }
  cells.push_back({"SamplingParams.logit_bias", Json{{absl::StrCat(ids), 1}}, false});
  // The room that the context leaves behind the prompt.
  v1::GenerateRequest hello;
  hello.set_text("hello");
  const auto built = coordinator::BuildRequest(hello, Model());
  const int64_t room = Model().max_model_len - static_cast<int64_t>(built->request.prompt.size());
  cells.push_back({"SamplingParams.max_tokens", room, true});
  cells.push_back({"SamplingParams.max_tokens", room + 1, false});
  cells.push_back({"SamplingParams.max_tokens", 0, false});
  cells.push_back({"SamplingParams.min_tokens", room + 1, false});
  return cells;
}

TEST(FrontEndLimits, EveryFieldWithALimitIsInTheTable) {
  for (const RequestFieldLimit& limit : coordinator::RequestFieldLimits()) {
    const bool has_edges = limit.kind == Kind::kBytes || limit.kind == Kind::kCount ||
                           limit.kind == Kind::kValue || limit.kind == Kind::kTokens ||
                           (limit.kind == Kind::kId && limit.high > 0);
    const bool is_walked =
        limit.field.starts_with("GenerateRequest.") || limit.field.starts_with("SamplingParams.");
    EXPECT_EQ(Names().contains(std::string(limit.field)), has_edges && is_walked) << limit.field;
  }
  for (const auto& [field, names] : Names()) EXPECT_EQ(names.size(), FrontEnds().size()) << field;
}

TEST(FrontEndLimits, EveryCellIsTried) {
  std::map<std::string, int> tried;
  for (const Cell& cell : MakeCells()) {
    for (size_t i = 0; i < FrontEnds().size(); ++i) {
      const FrontEnd& front_end = FrontEnds()[i];
      const std::string name = Names().at(cell.field)[i];
      if (name == kNone) continue;
      const Said said = front_end.ask(name, cell.value);
      const std::string where =
          absl::StrCat(front_end.name, " ", name, " = ", cell.value.dump().substr(0, 80));
      if (!said) {
        // A field without a sign has no such value: what is off below 0 is off at 0 there.
        const bool is_below_zero = cell.value.is_number() && cell.value < 0;
        EXPECT_TRUE(!cell.is_within || is_below_zero) << where << " cannot be said";
        continue;
      }
      ++tried[front_end.name];
      const std::string words(said->message());
      if (front_end.zero_is_unset && cell.value.is_number() && cell.value == 0 &&
          name != "sampling_params.max_tokens") {
        EXPECT_TRUE(said->ok()) << where << ": " << *said;
      } else if (cell.is_within) {
        // The demo model's context is short, and it has few words.
        EXPECT_TRUE(said->ok() || words.find("the context of") != std::string::npos)
            << where << ": " << *said;
      } else {
        EXPECT_TRUE(absl::IsInvalidArgument(*said)) << where << ": " << *said;
        EXPECT_TRUE(IsNamed(words, name)) << where << ": " << words;
      }
    }
  }
  for (const FrontEnd& front_end : FrontEnds()) EXPECT_GT(tried[front_end.name], 20);
}

TEST(FrontEndLimits, AFieldThatIsNotThereIsNotTaken) {
  for (const auto& [field, names] : Names()) {
    const std::string ours = field.substr(field.find('.') + 1);
    // One that the field would take, were it there.
    const std::vector<Cell> cells = MakeCells();
    const auto right = std::find_if(cells.begin(), cells.end(), [&field](const Cell& cell) {
      return cell.field == field && cell.is_within;
    });
    const Json value = right == cells.end() ? Json("a") : right->value;
    for (size_t i = 1; i < names.size(); ++i) {
      // request_id of /v1/completions is no part of the service's request.
      if (names[i] != kNone || ours == "request_id") continue;
      const bool nested = FrontEnds()[i].name == "VllmEngine" && field.starts_with("Sampling");
      const Said said = FrontEnds()[i].ask(nested ? "sampling_params." + ours : ours, value);
      EXPECT_TRUE(!said || absl::IsInvalidArgument(*said)) << FrontEnds()[i].name << " " << ours;
    }
  }
}

}  // namespace
}  // namespace tutti
