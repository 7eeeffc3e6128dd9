// An answer of Anthropic's Messages API: its events one by one, or whole. Its blocks are the
// model's reasoning, its text and its calls, in the order in which it wrote them.
//
// Pure.  Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/answer_writer.h"
#include "gateway/json_text.h"
#include "gateway/parse/answer_parser.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

class MessagesAnswer : public AnswerWriter {
 public:
  // `id` of the answer, "msg_...".
  MessagesAnswer(bool stream, std::string id, std::string model,
                 std::shared_ptr<const ParseOptions> parse);

  std::string OnMessage(size_t prompt, const v1::GenerateResponse& message) override;
  std::string OnEnd() override;
  std::string OnError(const ApiError& error) override;
  std::string OnSilence() const override;

 private:
  enum class Block { kNone, kThinking, kText, kCall };

  std::string Begin();
  std::string Open(Block block, const AnswerPiece* call);
  std::string Close();
  std::string Add(const AnswerPiece& piece);
  std::string CallId(size_t call) const;
  OrderedJson BlockJson(Block block, const AnswerPiece* call) const;
  OrderedJson MessageJson(OrderedJson content, OrderedJson stop_reason,
                          OrderedJson stop_sequence) const;
  OrderedJson UsageJson() const;
  OrderedJson StopReason(bool has_calls) const;
  OrderedJson StopSequence() const;
  std::string WholeBody() const;

  const bool stream_;
  const std::string id_, model_;
  const std::shared_ptr<const ParseOptions> parse_;
  AnswerParser parser_;
  bool in_reasoning_ = false;
  bool begun_ = false;
  Block open_ = Block::kNone;
  int64_t blocks_ = 0;  // that were opened
  std::string raw_;     // all text, where the answer is whole
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, output_tokens_ = 0;
  v1::Finish finish_;
};

}  // namespace tutti::gateway
