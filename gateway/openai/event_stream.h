// A stream of events with ids, which begins anew or after the event that its client has.
//
// To go on, the answer is computed again from its first token and written again by the same
// writer, and what the client has is dropped: so usage, offsets, roles and whatever else a chunk
// says are as if nothing had happened. The messages of the service are cut where the client's
// events ended. That is always possible, because a text is a function of the tokens: after so many
// of them so many bytes have been sent, in however many messages.
//
// Pure.  Thread: one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/openai/answer.h"
#include "gateway/answer_writer.h"
#include "gateway/event_id.h"

namespace tutti::gateway {

// Whether streams of that shape can have ids, and so can be gone on with.
bool MayHaveEventIds(const AnswerShape& shape);

class EventStream : public AnswerWriter {
 public:
  EventStream(const AnswerShape& shape, const AnswerHead& head, EventOptions options);

  std::string OnMessage(size_t prompt, const v1::GenerateResponse& message) override;
  std::string OnEnd() override;
  std::string OnError(const ApiError& error) override { return StreamAnswer::OnError(error); }
  const std::optional<ApiError>& error() const override { return error_; }

 private:
  // The part that the client has of an output.
  enum class Stage { kHas, kHasPart, kNew };
  struct Output {
    OutputPosition at;
    Stage stage = Stage::kNew;
    v1::GenerateResponse part;  // kHasPart: collected so far of the message that it has a part of
  };

  // The new part of an output, while the client has more of another than has come.
  struct Waiting {
    v1::GenerateResponse message;
    uint64_t skip = 0;  // of its events
  };

  // Takes what the client has from the front of the message; true: that was all of it.
  bool CatchUp(size_t index, v1::GenerateResponse* message);
  // Drops what the client has; true: all of it is dropped.
  bool DropHas(size_t index, v1::GenerateResponse* message);
  // Collects the message that the client has a part of; true: all of it is there.
  bool CollectPart(size_t index, v1::GenerateResponse* message);
  // The events of a message, without the first `skip` of them.
  std::string Send(const v1::GenerateResponse& message, uint64_t skip);
  void Advance(const v1::GenerateResponse& message, OutputPosition* at) const;
  std::string WithId(std::string_view event, const std::optional<PartOfMessage>& part,
                     uint64_t end_events);
  void Fail();

  const AnswerHead head_;
  const EventOptions options_;
  const bool ids_;
  StreamAnswer answer_;
  std::optional<EventIdWriter> writer_;  // once the service's token is known
  std::vector<Output> outputs_;
  // Outputs of which the client has more than has come. Until there are none nothing is sent: an id
  // says how much there is of all of them.
  size_t behind_ = 0;
  std::vector<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  std::vector<OutputPosition> positions_;  // of `outputs_`, to be written
  std::optional<ApiError> error_;
};

}  // namespace tutti::gateway
