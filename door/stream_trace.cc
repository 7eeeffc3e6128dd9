#include "door/stream_trace.h"

#include <algorithm>
#include <utility>

#include "door/limits.h"

namespace tutti::door {
namespace {

using metrics::Span;

}  // namespace

StreamTrace::StreamTrace(metrics::SpanWriter* writer, std::string_view traceparent) {
  if (writer == nullptr) return;
  const auto parent = metrics::ParseTraceparent(traceparent);
  if (parent.has_value() && !parent->sampled) return;
  writer_ = writer;
  if (parent.has_value()) {
    parent_ = *parent;
  } else {
    parent_.trace_id = metrics::NewTraceId();
  }
  begin_ns_ = metrics::SpanNow();
}

void StreamTrace::Identify(const std::string& request_id, RequestId id) {
  identified_ = true;
  // Perhaps not looked at yet: a name is what a request may have for one.
  request_id_ = metrics::WholeLetters(request_id, kRequestIdBytesMax);
  id_ = id;
}

void StreamTrace::Count(const v1::GenerateResponse& response) {
  if (writer_ == nullptr) return;
  tokens_ += response.tokens_size();
  if (response.has_started()) prompt_tokens_ = response.started().prompt_tokens();
  if (!response.has_finish()) return;
  const v1::Finish& finish = response.finish();
  prompt_tokens_ = std::max<int64_t>(prompt_tokens_, finish.usage().prompt_tokens());
  cached_tokens_ = std::max<int64_t>(cached_tokens_, finish.usage().cached_prompt_tokens());
  reasons_.emplace_back(finish.reason() == v1::FINISH_REASON_LENGTH ? "length" : "stop");
  if (!timing_) timing_ = finish.timing();
}

std::vector<Span> StreamTrace::Phases(const Span& call) const {
  const auto at = [this](double ms) { return begin_ns_ + static_cast<int64_t>(ms * 1e6); };
  const auto phase = [&call](const char* name, int64_t begin, int64_t end) {
    return Span{.trace_id = call.trace_id,
                .span_id = metrics::NewSpanId(),
                .parent_id = call.span_id,
                .name = name,
                .kind = Span::Kind::kInternal,
                .begin_ns = begin,
                .end_ns = std::max(begin, end),
                .attributes = {}};
  };
  const int64_t queued = at(timing_->queue_ms()), first = at(timing_->first_token_ms());
  return {phase("queue", begin_ns_, queued), phase("prefill", queued, first),
          phase("decode", first, at(timing_->total_ms()))};
}

void StreamTrace::End(const absl::Status& status) const {
  if (writer_ == nullptr || !identified_) return;
  Span call{.trace_id = parent_.trace_id,
            .span_id = metrics::NewSpanId(),
            .parent_id = parent_.span_id,
            .name = "tutti.v1.Inference/Generate",
            .kind = Span::Kind::kServer,
            .begin_ns = begin_ns_,
            .end_ns = metrics::SpanNow(),
            .attributes = {{"rpc.system", std::string("grpc")},
                           {"rpc.service", std::string("tutti.v1.Inference")},
                           {"rpc.method", std::string("Generate")},
                           {"rpc.grpc.status_code", static_cast<int64_t>(status.raw_code())},
                           {"tutti.request", static_cast<int64_t>(id_.value())},
                           {"gen_ai.provider.name", std::string("tutti")},
                           {"gen_ai.usage.input_tokens", prompt_tokens_},
                           {"gen_ai.usage.output_tokens", tokens_},
                           {"tutti.usage.cached_tokens", cached_tokens_}},
            .failed = !status.ok()};
  if (!request_id_.empty()) call.attributes.emplace_back("tutti.request_id", request_id_);
  if (!reasons_.empty()) call.attributes.emplace_back("gen_ai.response.finish_reasons", reasons_);
  if (!status.ok()) {
    call.attributes.emplace_back("error.type",
                                 std::string(absl::StatusCodeToString(status.code())));
  }
  std::vector<Span> spans;
  if (timing_) spans = Phases(call);
  spans.push_back(std::move(call));
  writer_->Add(std::move(spans));
}

}  // namespace tutti::door
