#include "gateway/openai/answer_kinds.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"
#include "gateway/openai/event_stream.h"
#include "gateway/openai/responses_answer.h"

namespace tutti::gateway {
namespace {

class WholeWriter : public AnswerWriter {
 public:
  WholeWriter(const AnswerShape& shape, const AnswerHead& head) : answer_(shape, head) {}
  std::string OnMessage(size_t prompt, const v1::GenerateResponse& message) override {
    answer_.OnMessage(prompt, message);
    if (answer_.bytes() > kWholeAnswerBytesMax) {
      error_ = MakeError(400, absl::StrCat("the answer is larger than ", kWholeAnswerBytesMax,
                                           " bytes: ask for it as a stream"));
    }
    return "";
  }
  std::string OnEnd() override { return answer_.Body(); }
  std::string OnError(const ApiError& error) override { return ErrorBody(error); }
  const std::optional<ApiError>& error() const override { return error_; }

 private:
  WholeAnswer answer_;
  std::optional<ApiError> error_;
};

}  // namespace

std::unique_ptr<AnswerWriter> MakeAnswerWriter(bool stream, const AnswerShape& shape,
                                               const AnswerHead& head, EventOptions options,
                                               std::shared_ptr<const OrderedJson> response) {
  if (response != nullptr) {
    return std::make_unique<ResponsesAnswer>(stream, shape, head, std::move(response));
  }
  if (!stream) return std::make_unique<WholeWriter>(shape, head);
  return std::make_unique<EventStream>(shape, head, std::move(options));
}

}  // namespace tutti::gateway
