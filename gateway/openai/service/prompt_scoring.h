// The log-probabilities of a prompt's own tokens.
//
// The service tells those of tokens that it generates, of the model's own distribution whatever may
// be drawn. So each token of the prompt is asked for behind those before it, as the only one that
// may be drawn; what is before it is in the KV cache, up to a block, once the whole prompt has been
// there. One voice makes these numbers those of the prompt.
//
// Thread: the server's loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/caller_rules.h"
#include "gateway/service/caller.h"
#include "gateway/service/generation.h"

namespace tutti::gateway {

// By token of a prompt; the first has its id and text only.
using PromptScores = std::vector<v1::OutputToken>;

// Keeps itself alive until all of its calls have ended.
class PromptScoring : public std::enable_shared_from_this<PromptScoring> {
 public:
  using Done = std::function<void(std::vector<PromptScores>)>;
  using Failed = std::function<void(const absl::Status&, size_t prompt)>;

  // `prompts`: requests with ids, of which the sampling asks for nothing but so many alternatives
  // (`top`). `scores`: for each of them, with ids and texts. One of `done` and `failed` is called,
  // unless the caller goes before.
  PromptScoring(Caller caller, const GenerationContext* context,
                std::vector<v1::GenerateRequest> prompts, uint32_t top,
                std::vector<PromptScores> scores, Done done, Failed failed);
  ~PromptScoring();

  void Start();

 private:
  class Observer;
  struct Place {
    size_t prompt = 0;
    size_t token = 0;
  };

  // As many calls as may be under way.
  void Go();
  // The next token that nobody has asked for; nothing: there is none, or it has to wait.
  std::optional<Place> NextPlace();
  void Ask(Place place);
  void OnToken(Place place, const v1::GenerateResponse& message);
  void OnEnd(size_t number, Place place, const absl::Status& status);

  const Caller caller_;
  const GenerationContext& context_;
  const std::vector<v1::GenerateRequest> prompts_;
  const uint32_t top_;
  std::vector<PromptScores> scores_;
  const Done done_;
  const Failed failed_;
  std::vector<std::unique_ptr<Observer>> observers_;
  std::vector<std::unique_ptr<client::GenerateCall>> calls_;  // null: ended
  size_t prompt_ = 0;                                         // that is asked for
  size_t asked_ = 0;                                          // tokens of it
  bool is_cached_ = false;                                    // all of it has been computed once
  size_t under_way_ = 0;
  bool stopped_ = false;
};

}  // namespace tutti::gateway
