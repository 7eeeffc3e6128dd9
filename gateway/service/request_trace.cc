#include "gateway/service/request_trace.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "metrics/limits.h"

namespace tutti::gateway {
namespace {

using metrics::Span;

std::string Operation(std::string_view kind) { return kind == "text" ? "text_completion" : "chat"; }

// Where there are two nobody knows which counts: there is none.
std::optional<metrics::TraceContext> ParentOf(const HttpRequest& request) {
  const auto count = std::count_if(request.fields.begin(), request.fields.end(),
                                   [](const auto& field) { return field.first == "traceparent"; });
  if (count != 1) return std::nullopt;
  return metrics::ParseTraceparent(request.Field("traceparent"));
}

// The beginning of a text that the caller wrote: whole letters, for a span is JSON.
std::string Cut(const std::string& text) {
  return metrics::WholeLetters(text, metrics::kSpanTextBytesMax);
}

void AddSampling(const v1::GenerateRequest& call, Span* span) {
  const v1::SamplingParams& sampling = call.sampling();
  const auto add = [span](const char* name, metrics::SpanValue value) {
    span->attributes.emplace_back(name, std::move(value));
  };
  if (sampling.has_max_tokens()) {
    add("gen_ai.request.max_tokens", static_cast<int64_t>(sampling.max_tokens()));
  }
  if (sampling.has_temperature()) {
    add("gen_ai.request.temperature", static_cast<double>(sampling.temperature()));
  }
  if (sampling.has_top_p()) add("gen_ai.request.top_p", static_cast<double>(sampling.top_p()));
  if (sampling.has_top_k()) add("gen_ai.request.top_k", static_cast<double>(sampling.top_k()));
  if (sampling.has_frequency_penalty()) {
    add("gen_ai.request.frequency_penalty", static_cast<double>(sampling.frequency_penalty()));
  }
  if (sampling.has_presence_penalty()) {
    add("gen_ai.request.presence_penalty", static_cast<double>(sampling.presence_penalty()));
  }
  if (sampling.has_seed()) {
    add("gen_ai.request.seed", static_cast<int64_t>(sampling.seed()));
  }
  if (call.n() > 1) add("gen_ai.request.choice.count", static_cast<int64_t>(call.n()));
}

}  // namespace

RequestTrace::RequestTrace(metrics::SpanWriter* writer, const HttpRequest& request, size_t calls)
    : RequestTrace(writer, ParentOf(request), absl::StrCat(request.method, " ", request.path),
                   {{"http.request.method", request.method},
                    {"http.route", request.path},
                    {"url.path", request.path}},
                   calls) {}

RequestTrace::RequestTrace(metrics::SpanWriter* writer, std::string_view method,
                           std::string_view traceparent)
    : RequestTrace(writer, metrics::ParseTraceparent(traceparent), std::string(method),
                   {{"rpc.system", std::string("grpc")},
                    {"rpc.service", std::string(method.substr(0, method.find('/')))},
                    {"rpc.method", std::string(method.substr(method.find('/') + 1))}},
                   /*calls=*/1) {}

RequestTrace::RequestTrace(metrics::SpanWriter* writer,
                           const std::optional<metrics::TraceContext>& parent, std::string name,
                           Attributes attributes, size_t calls)
    : writer_(writer), calls_left_(calls) {
  if (parent.has_value() && !parent->sampled) writer_ = nullptr;
  if (writer_ == nullptr) {
    if (parent.has_value()) passed_on_ = metrics::FormatTraceparent(*parent);
    return;
  }
  request_ = {.trace_id = parent.has_value() ? parent->trace_id : metrics::NewTraceId(),
              .span_id = metrics::NewSpanId(),
              .parent_id = parent.has_value() ? parent->span_id : "",
              .name = std::move(name),
              .kind = Span::Kind::kServer,
              .begin_ns = metrics::SpanNow(),
              .attributes = std::move(attributes)};
}

std::string RequestTrace::BeginCall(const v1::GenerateRequest& call, std::string_view kind,
                                    const std::string& wanted) {
  if (writer_ == nullptr) return passed_on_;
  const std::string model = Cut(wanted);
  const std::string operation = Operation(kind);
  Span span{.trace_id = request_.trace_id,
            .span_id = metrics::NewSpanId(),
            .parent_id = request_.span_id,
            .name = absl::StrCat(operation, " ", model),
            .kind = Span::Kind::kClient,
            .begin_ns = metrics::SpanNow(),
            .attributes = {{"gen_ai.operation.name", operation},
                           {"gen_ai.provider.name", std::string("tutti")},
                           {"gen_ai.request.model", model},
                           {"gen_ai.response.id", Cut(call.request_id())}}};
  AddSampling(call, &span);
  const metrics::TraceContext context{.trace_id = span.trace_id, .span_id = span.span_id};
  calls_.push_back({.span = std::move(span), .reasons = {}});
  return metrics::FormatTraceparent(context);
}

void RequestTrace::OnMessage(size_t index, const v1::GenerateResponse& message) {
  if (index >= calls_.size()) return;
  Call& call = calls_[index];
  call.tokens += message.tokens_size();
  if (message.has_started()) call.prompt_tokens = message.started().prompt_tokens();
  if (!message.has_finish()) return;
  call.reasons.emplace_back(message.finish().reason() == v1::FINISH_REASON_LENGTH ? "length"
                                                                                  : "stop");
}

void RequestTrace::EndCall(size_t index, const absl::Status& status) {
  if (index >= calls_.size() || calls_left_ == 0) return;
  Call& call = calls_[index];
  call.span.end_ns = metrics::SpanNow();
  auto& attributes = call.span.attributes;
  attributes.emplace_back("gen_ai.usage.input_tokens", call.prompt_tokens);
  attributes.emplace_back("gen_ai.usage.output_tokens", call.tokens);
  if (!call.reasons.empty()) {
    attributes.emplace_back("gen_ai.response.finish_reasons", std::move(call.reasons));
  }
  if (!status.ok()) {
    const std::string type(absl::StatusCodeToString(status.code()));
    attributes.emplace_back("error.type", type);
    // Of several failures the first counts.
    if (!request_.failed) request_.attributes.emplace_back("error.type", type);
    call.span.failed = request_.failed = true;
  }
  if (--calls_left_ > 0) return;
  request_.end_ns = metrics::SpanNow();
  std::vector<Span> spans{std::move(request_)};
  for (Call& ended : calls_) spans.push_back(std::move(ended.span));
  writer_->Add(std::move(spans));
}

}  // namespace tutti::gateway
