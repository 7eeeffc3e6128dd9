#include "client/load/chats.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace tutti::client {
namespace {

// Streams of randomness that must not meet.
constexpr uint64_t kQuestionStream = 1;
constexpr uint64_t kSeedStream = 2;
constexpr uint64_t kTokenStream = 3;
constexpr uint64_t kSharedStream = 4;
constexpr uint64_t kBlockStream = 5;

v1::GenerateRequest RequestOf(const ChatOptions& options, int64_t number, int32_t turn) {
  v1::GenerateRequest request;
  *request.mutable_sampling() = options.sampling;
  if (options.grammar.has_value()) *request.mutable_grammar() = *options.grammar;
  request.mutable_sampling()->set_seed(
      RandomBits(options.seed, static_cast<uint64_t>(number * options.turns + turn), kSeedStream));
  request.set_priority(options.priority);
  if (options.tenants > 0) request.set_tenant(absl::StrCat("bench-", number % options.tenants));
  return request;
}

class QuestionChat : public Chat {
 public:
  QuestionChat(const ChatOptions& options, int64_t number)
      : options_(options),
        number_(number),
        random_(options.seed, static_cast<uint64_t>(number) << 8 | kQuestionStream) {
    if (!options_.system.empty()) Add("system", options_.system);
    for (int32_t i = 0; i < options_.history; ++i) {
      const Question past = Draw();
      Add("user", past.text);
      Add("assistant", past.answer);
    }
  }

  v1::GenerateRequest Ask() override {
    v1::GenerateRequest request = RequestOf(options_, number_, turn_++);
    asked_ = Draw();
    Add("user", asked_.text);
    *request.mutable_chat() = messages_;
    return request;
  }
  void Hear(const std::string& text, const std::vector<int32_t>&) override {
    Add("assistant", text);
  }
  std::optional<std::string> RightAnswer() const override {
    return asked_.is_known ? std::optional<std::string>(asked_.answer) : std::nullopt;
  }

 private:
  void Add(const std::string& role, const std::string& content) {
    v1::ChatMessage& message = *messages_.add_messages();
    message.set_role(role);
    message.set_content(content);
  }
  Question Draw() {
    if (options_.questions.empty()) return MakeQuestion(&random_);
    const auto last = static_cast<int64_t>(options_.questions.size()) - 1;
    return options_.questions[static_cast<size_t>(random_.Between(0, last))];
  }

  const ChatOptions& options_;
  const int64_t number_;
  Random random_;
  int32_t turn_ = 0;
  v1::ChatMessages messages_;
  Question asked_;
};

class TokenChat : public Chat {
 public:
  // Tokens the chat begins with, before those that it draws itself.
  TokenChat(const ChatOptions& options, int64_t number, std::vector<int32_t> begin)
      : options_(options),
        number_(number),
        random_(options.seed, static_cast<uint64_t>(number) << 8 | kTokenStream),
        ids_(std::move(begin)) {}

  v1::GenerateRequest Ask() override {
    v1::GenerateRequest request = RequestOf(options_, number_, turn_);
    int64_t missing = options_.input_tokens;
    if (turn_++ == 0) missing -= static_cast<int64_t>(ids_.size());
    for (; missing > 0; --missing) {
      ids_.push_back(static_cast<int32_t>(random_.Between(0, options_.vocabulary - 1)));
    }
    request.mutable_token_ids()->mutable_ids()->Assign(ids_.begin(), ids_.end());
    return request;
  }
  void Hear(const std::string&, const std::vector<int32_t>& ids) override {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

 private:
  const ChatOptions& options_;
  const int64_t number_;
  Random random_;
  int32_t turn_ = 0;
  std::vector<int32_t> ids_;  // of the prompt so far
};

class TraceChat : public Chat {
 public:
  TraceChat(const ChatOptions& options, const TraceRequest& trace, int32_t block_tokens,
            int64_t number)
      : options_(options), trace_(trace), block_tokens_(block_tokens), number_(number) {}

  v1::GenerateRequest Ask() override {
    v1::GenerateRequest request = RequestOf(options_, number_, 0);
    request.mutable_sampling()->set_max_tokens(static_cast<uint32_t>(Scaled(trace_.output_tokens)));
    request.mutable_sampling()->set_ignore_eos(true);
    auto& ids = *request.mutable_token_ids()->mutable_ids();
    const int32_t tokens = Scaled(trace_.input_tokens);
    for (int32_t i = 0; i < tokens; ++i) {
      Random random(options_.seed ^ static_cast<uint64_t>(
                                        trace_.blocks[static_cast<size_t>(i / block_tokens_)]),
                    static_cast<uint64_t>(i % block_tokens_) << 8 | kBlockStream);
      ids.Add(static_cast<int32_t>(random.Between(0, options_.vocabulary - 1)));
    }
    return request;
  }
  void Hear(const std::string&, const std::vector<int32_t>&) override {}

 private:
  int32_t Scaled(int32_t tokens) const {
    const int64_t scaled = int64_t{tokens} * block_tokens_ / kTraceBlockTokens;
    return static_cast<int32_t>(std::max<int64_t>(scaled, 1));
  }

  const ChatOptions& options_;
  const TraceRequest& trace_;
  const int32_t block_tokens_;
  const int64_t number_;
};

}  // namespace

std::unique_ptr<Chat> MakeChat(const ChatOptions& options, int64_t number) {
  if (options.input_tokens == 0) return std::make_unique<QuestionChat>(options, number);
  std::vector<int32_t> shared;
  Random random(options.seed, kSharedStream);
  for (int32_t i = 0; i < options.shared_tokens; ++i) {
    shared.push_back(static_cast<int32_t>(random.Between(0, options.vocabulary - 1)));
  }
  return std::make_unique<TokenChat>(options, number, std::move(shared));
}

std::unique_ptr<Chat> MakeTraceChat(const ChatOptions& options, const TraceRequest& request,
                                    int32_t block_tokens, int64_t number) {
  return std::make_unique<TraceChat>(options, request, block_tokens, number);
}

}  // namespace tutti::client
