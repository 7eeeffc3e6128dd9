#include "gateway/openai/answer_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::gateway {
namespace {

// OpenAI's API's value for minus infinity, which JSON cannot.
constexpr double kNoProbability = -9999.0;

double Written(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : kNoProbability;
}

// Characters that a token completes or is; offsets count those.
int64_t CharactersIn(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

bool Has(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

OrderedJson BytesJson(const std::string& text) {
  OrderedJson bytes = OrderedJson::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

}  // namespace

void UsageSum::TakePrompt(const v1::GenerateResponse& message) {
  if (message.has_started()) prompt_ += message.started().prompt_tokens();
}

void UsageSum::TakeTokens(const v1::GenerateResponse& message) {
  completion_ += message.tokens_size();
  if (!message.has_finish()) return;
  const v1::Usage& usage = message.finish().usage();
  cached_ += usage.cached_prompt_tokens();
  guessed_ += usage.guessed_tokens();
  guessed_right_ += usage.accepted_tokens();
}

OrderedJson UsageSum::ToJson() const {
  OrderedJson json = {{"prompt_tokens", prompt_},
                      {"completion_tokens", completion_},
                      {"total_tokens", prompt_ + completion_},
                      {"prompt_tokens_details", {{"cached_tokens", cached_}}}};
  if (guessed_ > 0) {
    json["completion_tokens_details"] = {{"accepted_prediction_tokens", guessed_right_},
                                         {"rejected_prediction_tokens", guessed_ - guessed_right_}};
  }
  return json;
}

EndTokens EndTokens::Of(const v1::SamplingParams& sampling, const std::vector<int32_t>& eos_ids) {
  const std::vector<int32_t> eos = sampling.ignore_eos() ? std::vector<int32_t>() : eos_ids;
  EndTokens ends;
  for (const int32_t id : sampling.stop_token_ids()) {
    if (!Has(eos, id)) ends.reasons.push_back(id);
  }
  if (sampling.include_stop_str_in_output()) return ends;
  ends.unseen = ends.reasons;
  ends.unseen.insert(ends.unseen.end(), eos.begin(), eos.end());
  return ends;
}

bool EndTokens::is_unseen(int32_t id) const { return Has(unseen, id); }

bool EndTokens::sees_any_of(const v1::GenerateResponse& message) const {
  return std::any_of(message.tokens().begin(), message.tokens().end(),
                     [this](const auto& token) { return !is_unseen(token.id()); });
}

std::optional<int32_t> EndTokens::ReasonIn(const v1::GenerateResponse& message) const {
  for (const v1::OutputToken& token : message.tokens()) {
    if (Has(reasons, token.id())) return token.id();
  }
  return std::nullopt;
}

std::string LogprobWriter::TextOf(int32_t id, const std::string& bytes) const {
  return tokens_as_ids_ ? absl::StrCat("token_id:", id) : bytes;
}

OrderedJson LogprobWriter::ChatJson(const v1::GenerateResponse& message) const {
  OrderedJson content = OrderedJson::array();
  for (const v1::OutputToken& token : message.tokens()) {
    if (ends_.is_unseen(token.id())) continue;
    OrderedJson top = OrderedJson::array();
    for (const v1::TokenLogprob& candidate : token.top()) {
      top.push_back({{"token", TextOf(candidate.id(), candidate.token())},
                     {"logprob", Written(candidate.logprob())},
                     {"bytes", BytesJson(candidate.token())}});
    }
    content.push_back({{"token", TextOf(token.id(), token.token())},
                       {"logprob", Written(token.logprob())},
                       {"bytes", BytesJson(token.token())},
                       {"top_logprobs", std::move(top)}});
  }
  return {{"content", std::move(content)}};
}

OrderedJson LogprobWriter::CompletionJson(const v1::GenerateResponse& message) {
  OrderedJson offsets = OrderedJson::array(), logprobs = OrderedJson::array();
  OrderedJson tokens = OrderedJson::array(), tops = OrderedJson::array();
  for (const v1::OutputToken& token : message.tokens()) {
    offsets.push_back(offset_);
    offset_ += CharactersIn(token.token());
    tokens.push_back(TextOf(token.id(), token.token()));
    logprobs.push_back(Written(token.logprob()));
    // The sampled one is always among them, and the first, as vLLM's.
    OrderedJson top = {{TextOf(token.id(), token.token()), nullptr}};
    for (const v1::TokenLogprob& candidate : token.top()) {
      top[TextOf(candidate.id(), candidate.token())] = Written(candidate.logprob());
    }
    top.front() = Written(token.logprob());
    tops.push_back(std::move(top));
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(logprobs)},
          {"tokens", std::move(tokens)},
          {"top_logprobs", std::move(tops)}};
}

OrderedJson LogprobWriter::PromptJson(const std::vector<v1::OutputToken>& scores) {
  v1::GenerateResponse all;
  all.mutable_tokens()->Assign(scores.begin(), scores.end());
  OrderedJson json = CompletionJson(all);
  if (!scores.empty()) json["token_logprobs"][0] = json["top_logprobs"][0] = nullptr;
  return json;
}

OrderedJson LogprobWriter::ToJson(const v1::GenerateResponse& message) {
  if (!ends_.sees_any_of(message)) return nullptr;
  return chat_ ? ChatJson(message) : CompletionJson(message);
}

OrderedJson PromptLogprobsJson(const std::vector<v1::OutputToken>& scores) {
  OrderedJson list = OrderedJson::array();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (i == 0) {
      list.push_back(nullptr);
      continue;
    }
    const v1::OutputToken& token = scores[i];
    OrderedJson one = {{absl::StrCat(token.id()),
                        {{"logprob", Written(token.logprob())},
                         {"rank", nullptr},
                         {"decoded_token", token.token()}}}};
    int rank = 0;
    for (const v1::TokenLogprob& candidate : token.top()) {
      one[absl::StrCat(candidate.id())] = {{"logprob", Written(candidate.logprob())},
                                           {"rank", ++rank},
                                           {"decoded_token", candidate.token()}};
    }
    list.push_back(std::move(one));
  }
  return list;
}

OrderedJson TokenIdsJson(const v1::GenerateResponse& message) {
  OrderedJson ids = OrderedJson::array();
  for (const v1::OutputToken& token : message.tokens()) ids.push_back(token.id());
  return ids;
}

size_t LogprobLists::Append(const OrderedJson& more) {
  size_t grown = 0;
  for (const auto& [name, list] : more.items()) {
    auto found = std::find_if(lists_.begin(), lists_.end(),
                              [&name = name](const auto& other) { return other.first == name; });
    if (found == lists_.end()) found = lists_.insert(found, {name, ""});
    const size_t before = found->second.size();
    for (const OrderedJson& item : list) {
      absl::StrAppend(&found->second, found->second.empty() ? "" : ",", Dump(item));
    }
    grown += found->second.size() - before;
  }
  return grown;
}

std::string LogprobLists::Text(bool chat) const {
  if (lists_.empty()) {
    return chat ? R"({"content":[]})"
                : R"({"text_offset":[],"token_logprobs":[],"tokens":[],"top_logprobs":[]})";
  }
  std::string text;
  for (const auto& [name, items] : lists_) {
    absl::StrAppend(&text, text.empty() ? "{" : ",", "\"", name, "\":[", items, "]");
  }
  return text + "}";
}

std::string Joined(std::string first, std::string_view second) {
  if (first == "{}") return std::string(second);
  if (second == "{}") return first;
  first.back() = ',';
  return first.append(second.substr(1));
}

const char* FinishReasonText(v1::FinishReason reason) {
  return reason == v1::FINISH_REASON_LENGTH ? "length" : "stop";
}

OrderedJson StopReasonJson(const v1::Finish& finish, std::optional<int32_t> token) {
  if (!finish.stop().empty()) return finish.stop();
  // It may stand behind the end of the text, where nothing ends by it.
  if (token.has_value() && finish.reason() == v1::FINISH_REASON_STOP) return *token;
  return nullptr;
}

std::string SystemFingerprint(const std::string& model_fingerprint) {
  return absl::StrCat("fp_", model_fingerprint.substr(0, 16));
}

}  // namespace tutti::gateway
