#include "tests/support/sim_clients.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/oracle_model.h"
#include "tests/support/sim_grammars.h"

namespace tutti::tests {
namespace {

constexpr int32_t kTriesMax = 4;
// The right answers take time that grows with the square of this.
constexpr int32_t kConversationTokensMax = 160;
// Beginnings that prompts of a run share, and the randomness they come from.
constexpr int64_t kSharedPrefixes = 3;
constexpr uint64_t kSharedStream = 100;
constexpr int64_t kSimOutputsMax = 6;
// Limits on what is drawn have randomness of their own.
constexpr uint64_t kMaskStream = 200, kGrammarStream = 300, kGuessStream = 400;
constexpr uint64_t kRepeatStream = 500;
constexpr Duration kDeadlineSlack = std::chrono::milliseconds(5);

std::string Name(RequestId request) { return absl::StrCat("request ", request.value()); }

}  // namespace

SimClients::SimClients(const SimOptions* options, SimQueue* queue, EventCallback to_engine,
                       FailCallback fail, const SimDeaths* deaths)
    : options_(options),
      queue_(queue),
      to_engine_(std::move(to_engine)),
      fail_(std::move(fail)),
      deaths_(deaths),
      random_(options->seed, /*stream=*/2),
      masks_(options->seed, kMaskStream),
      grammars_(options->seed, kGrammarStream),
      guesses_(options->seed, kGuessStream),
      repeats_(options->seed, kRepeatStream) {}

SimClients::Client SimClients::Draw() {
  Client client;
  coordinator::Request& request = client.request;
  const auto tenant = static_cast<int32_t>(random_.Between(0, options_->tenants - 1));
  request.cache_domain = {static_cast<uint64_t>(tenant), 0};
  request.max_tokens = static_cast<int32_t>(random_.Between(1, options_->output_tokens_max));
  const int32_t room = std::min(options_->kv_slots(), kConversationTokensMax);
  request.prompt = DrawPrompt(tenant, room - request.max_tokens, &client.not_before);
  request.sampling.set_seed(random_.Bits());
  if (random_.Chance(0.6)) request.sampling.set_temperature(1.0f);
  if (random_.Chance(0.3)) request.sampling.set_presence_penalty(0.5f);
  if (random_.Chance(0.05)) request.sampling.set_top_k(kOraclePoisonTopK);
  if (options_->killer_chance > 0 && random_.Chance(options_->killer_chance)) {
    request.sampling.set_top_k(kOracleKillerTopK);
  }
  if (random_.Chance(0.3)) {
    const auto token = static_cast<TokenId>(random_.Between(0, kSimVocab - 10));
    request.stop_token_ids = {token, token + 3, token + 7};
  }
  DrawMask(&request);
  if (options_->plan_bytes_max == coordinator::kPlanBytesMax) DrawSimGrammar(&grammars_, &request);
  if (guesses_.Chance(0.2)) {
    request.guesses_max = static_cast<int32_t>(guesses_.Between(0, coordinator::kGuessesMax));
    if (options_->drafts_max > 0) request.drafts_max = *request.guesses_max;
  }
  if (options_->only_drafts()) request.guesses_max = 0;
  if (random_.Chance(0.3)) request.priority = static_cast<int32_t>(random_.Between(-2, 2));
  request.owner.low = static_cast<uint64_t>(random_.Between(0, 3));
  if (random_.Chance(0.1)) client.stop_after = static_cast<int32_t>(random_.Between(1, 8));
  client.right = OracleOutput(request.prompt, request.max_tokens, request.stop_token_ids,
                              request.sampling, options_->num_layers, kSimVocab);
  Repeat(&client);
  return client;
}

// Few tokens, rows of them that must not come, an end that must not come early.
void SimClients::DrawMask(coordinator::Request* request) {
  v1::SequenceSampling& sampling = request->sampling;
  if (masks_.Chance(0.3)) {
    const auto first = static_cast<TokenId>(masks_.Between(0, 4));
    for (TokenId id = first; id < kSimVocab; id += 5) sampling.add_allowed_ids(id);
    for (int64_t i = masks_.Between(0, 8); i > 0; --i) {
      v1::BannedTokens& banned = *sampling.add_banned();
      for (int64_t t = masks_.Between(2, 3); t > 0; --t) {
        const auto place = static_cast<int>(masks_.Between(0, sampling.allowed_ids_size() - 1));
        banned.add_ids(sampling.allowed_ids(place));
      }
    }
  }
  if (!request->stop_token_ids.empty() && masks_.Chance(0.5)) {
    sampling.set_min_tokens(static_cast<uint32_t>(masks_.Between(1, request->max_tokens)));
    sampling.mutable_end_ids()->Assign(request->stop_token_ids.begin(),
                                       request->stop_token_ids.end());
  }
}

// A prompt of its own, or one that begins as others do, or one that goes on from an earlier
// conversation; `room` tokens if it can.
std::vector<TokenId> SimClients::DrawPrompt(int32_t tenant, int32_t room, Duration* not_before) {
  std::vector<TokenId> prompt;
  int64_t fresh = random_.Between(1, options_->prompt_tokens_max);
  if (random_.Chance(options_->shared_chance)) {
    Random shared(options_->seed, kSharedStream + random_.Between(1, kSharedPrefixes));
    for (int64_t i = shared.Between(1, options_->prompt_tokens_max); i > 0; --i) {
      prompt.push_back(static_cast<TokenId>(shared.Between(0, kSimVocab - 1)));
    }
    fresh = random_.Between(0, 8);
  }
  if (!conversations_.empty() && random_.Chance(options_->follow_chance)) {
    const Conversation& earlier = conversations_[random_.Between(0, conversations_.size() - 1)];
    if (earlier.tenant == tenant && static_cast<int32_t>(earlier.tokens.size()) < room) {
      prompt = earlier.tokens;
      *not_before = earlier.arrival;
      fresh = random_.Between(1, 8);
    }
  }
  for (int64_t i = 0; i < fresh; ++i) {
    prompt.push_back(static_cast<TokenId>(random_.Between(0, kSimVocab - 1)));
  }
  if (room >= 1 && static_cast<int32_t>(prompt.size()) > room) prompt.resize(room);
  return prompt;
}

void SimClients::Start() {
  for (int32_t i = 0; i < options_->num_requests; ++i) {
    Client client = Draw();
    ++open_;
    const Duration arrival =
        client.not_before + Duration(random_.Between(0, options_->arrivals_over.count()));
    Conversation& said = conversations_.emplace_back();
    said.tenant = static_cast<int32_t>(client.request.cache_domain.low);
    said.tokens = client.request.prompt;
    for (const v1::SampledToken& token : client.right) {
      if (token.token() >= 0) said.tokens.push_back(token.token());
    }
    said.arrival = arrival;
    queue_->After(arrival, [this, outputs = DrawOutputs(std::move(client))]() mutable {
      Arrive(std::move(outputs));
      --open_;
    });
  }
}

// The client, and others of equal requests with seeds of their own.
std::vector<SimClients::Client> SimClients::DrawOutputs(Client client) {
  const int64_t n = random_.Chance(options_->group_chance) ? random_.Between(2, kSimOutputsMax) : 1;
  std::vector<Client> outputs;
  for (int64_t i = 0; i < n; ++i) {
    outputs.push_back(client);
    if (i == 0) continue;
    coordinator::Request& request = outputs.back().request;
    request.sampling.set_seed(random_.Bits());
    outputs.back().right = OracleOutput(request.prompt, request.max_tokens, request.stop_token_ids,
                                        request.sampling, options_->num_layers, kSimVocab);
  }
  return outputs;
}

void SimClients::Probe(bool must_succeed) {
  Client client = Draw();
  client.must_succeed = must_succeed;
  client.stop_after.reset();
  client.request.sampling.set_top_k(0);
  client.request.prompt.resize(std::min<size_t>(client.request.prompt.size(), 20));
  client.request.max_tokens = std::min(client.request.max_tokens, 10);
  client.request.sampling.set_min_tokens(std::min(client.request.sampling.min_tokens(), 10u));
  client.right =
      OracleOutput(client.request.prompt, client.request.max_tokens, client.request.stop_token_ids,
                   client.request.sampling, options_->num_layers, kSimVocab);
  Arrive({std::move(client)});
}

void SimClients::Arrive(std::vector<Client> outputs, RequestId taken_over,
                        int32_t taken_over_outputs) {
  const bool must_succeed = outputs.front().must_succeed;
  const RequestId first(last_id_ + 1);
  Instant deadline = kInstantNever;
  if (!must_succeed && random_.Chance(options_->deadline_chance)) {
    deadline = queue_->now() + std::chrono::microseconds(random_.Between(1'000, 1'000'000));
  }
  coordinator::RequestArrived arrived{
      .request = {}, .taken_over = taken_over, .taken_over_outputs = taken_over_outputs};
  for (Client& client : outputs) {
    const RequestId id(++last_id_);
    client.request.id = id;
    client.request.deadline = deadline;
    client.request.first_output = outputs.size() > 1 ? first : RequestId();
    ++client.tries;
    if (!must_succeed && random_.Chance(options_->cancel_chance)) {
      queue_->After(std::chrono::microseconds(random_.Between(0, 200'000)), [this, id] {
        requests_[id].cancelled = true;
        to_engine_(coordinator::RequestCancelled{id, coordinator::CancelCause::kClientGone});
      });
    }
    ++open_;
    const Client& kept = requests_[id] = std::move(client);
    (id == first ? arrived.request : arrived.others.emplace_back()) = kept.request;
  }
  if (!must_succeed && random_.Chance(options_->resume_chance)) {
    queue_->After(std::chrono::microseconds(random_.Between(0, 500'000)),
                  [this, first] { Resume(first); });
  }
  to_engine_(std::move(arrived));
}

void SimClients::OnTokens(const coordinator::DeliverTokens& tokens) {
  const auto found = requests_.find(tokens.request);
  if (found == requests_.end()) return fail_("tokens of an unknown request");
  Client& client = found->second;
  if (client.ended) return fail_(absl::StrCat(Name(tokens.request), " gets tokens after its end"));
  if (client.foreign)
    return fail_(absl::StrCat(Name(tokens.request), " gets tokens of another class"));
  if (tokens.begun != nullptr) client.numerics = tokens.begun->numerics;
  if (tokens.index != static_cast<int32_t>(client.got.size())) {
    return fail_(absl::StrCat(Name(tokens.request), " gets token ", tokens.index, " after ",
                              client.got.size()));
  }
  for (const v1::SampledToken& token : tokens.tokens) {
    const size_t index = client.got.size();
    client.got.push_back(token);
    ++tokens_;
    if (index >= client.right.size() || client.right[index].token() != token.token() ||
        client.right[index].logprob() != token.logprob()) {
      return fail_(absl::StrCat(Name(tokens.request), " gets ", token.token(), " as token ", index,
                                ", right is ",
                                index < client.right.size() ? client.right[index].token() : -2));
    }
  }
  if (client.stop_after == static_cast<int32_t>(client.got.size())) {
    client.stopped = true;
    queue_->After(
        std::chrono::microseconds(random_.Between(1, 3'000)), [this, id = tokens.request] {
          to_engine_(coordinator::RequestCancelled{id, coordinator::CancelCause::kStopString});
        });
  }
}

void SimClients::Storm() {
  for (auto& [id, client] : requests_) {
    if (client.ended || client.must_succeed) continue;
    client.cancelled = true;
    to_engine_(coordinator::RequestCancelled{id, coordinator::CancelCause::kClientGone});
  }
}

void SimClients::OnFinish(const coordinator::FinishRequest& finish) {
  const auto found = requests_.find(finish.request);
  if (found == requests_.end()) return fail_("an unknown request ends");
  Client& client = found->second;
  if (client.ended) return fail_(absl::StrCat(Name(finish.request), " ends twice"));
  client.ended = true;
  client.end = finish.status.code();
  --open_;
  if (finish.completion_tokens != static_cast<int32_t>(client.got.size())) {
    fail_(absl::StrCat(Name(finish.request), " ends with ", finish.completion_tokens,
                       " tokens, delivered were ", client.got.size()));
  }
  if (finish.cached_prompt_tokens > MostCached(client, finish.request)) {
    fail_(absl::StrCat(Name(finish.request), " finds ", finish.cached_prompt_tokens,
                       " tokens cached that no request of its tenant has asked for"));
  }
  const std::string wrong =
      finish.status.ok() ? CheckGoodEnd(client, finish) : CheckBadEnd(client, finish);
  if (!wrong.empty()) fail_(absl::StrCat(Name(finish.request), " ", wrong));
  if (finish.status.ok()) ++ended_well_;
  const bool refused =
      absl::IsUnavailable(finish.status) || absl::IsResourceExhausted(finish.status);
  if (refused && client.tries < kTriesMax) Retry(client);
}

// Tokens of its prompt that requests of its tenant may have left in the cache.
int32_t SimClients::MostCached(const Client& client, RequestId id) const {
  if (!options_->prefix_caching) return 0;
  size_t most = 0;
  std::vector<TokenId> known = client.request.prompt;
  known.insert(known.end(), client.request.output.begin(), client.request.output.end());
  for (const auto& [other_id, other] : requests_) {
    if (other_id == id || other.request.cache_domain != client.request.cache_domain) continue;
    std::vector<TokenId> tokens = other.request.prompt;
    for (const v1::SampledToken& token : other.got) tokens.push_back(token.token());
    const auto end = std::mismatch(known.begin(), known.end(), tokens.begin(), tokens.end());
    most = std::max(most, static_cast<size_t>(end.first - known.begin()));
  }
  most = std::min(most, known.size() - 1);
  const auto blocks = static_cast<int32_t>(most) / options_->block_size;
  return std::min(blocks * options_->block_size,
                  static_cast<int32_t>(client.request.prompt.size()));
}

// A retry as a client library would: the same request under another id, after a moment.
void SimClients::Retry(const Client& client) {
  Client again;
  again.request = client.request;
  again.request.deadline = kInstantNever;
  again.request.first_output = RequestId();
  again.right = client.right;
  again.got.assign(client.got.begin(), client.got.begin() + client.request.output.size());
  again.numerics = client.numerics;
  again.foreign = client.foreign;
  again.tries = client.tries;
  ++open_;
  queue_->After(std::chrono::milliseconds(random_.Between(10, 2'000)),
                [this, again = std::move(again)]() mutable {
                  Arrive({std::move(again)});
                  --open_;
                });
}

void SimClients::CheckGroups(const std::set<std::string>& faulty) const {
  if (!faulty.empty()) return;  // those that begin again part from those that have begun
  for (const auto& [id, client] : requests_) {
    const auto first = requests_.find(client.request.first_output);
    if (first == requests_.end() || client.cancelled || first->second.cancelled) continue;
    const bool refused = client.end == absl::StatusCode::kResourceExhausted;
    if (refused != (first->second.end == absl::StatusCode::kResourceExhausted)) {
      fail_(absl::StrCat(Name(id), " is refused without its other outputs, or they without it"));
    }
  }
}

std::string SimClients::CheckGoodEnd(const Client& client,
                                     const coordinator::FinishRequest& finish) const {
  if (finish.cause == coordinator::FinishCause::kStopString) {
    return client.stopped ? "" : "ends with a stop string that it did not find";
  }
  if (client.got.size() != client.right.size()) {
    return absl::StrCat("ends well after ", client.got.size(), " of ", client.right.size(),
                        " tokens");
  }
  const std::vector<TokenId>& stop = client.request.stop_token_ids;
  const bool stops = std::binary_search(stop.begin(), stop.end(), client.got.back().token());
  if (stops != (finish.cause == coordinator::FinishCause::kStopToken))
    return "ends for the wrong cause";
  return "";
}

std::string SimClients::CheckBadEnd(const Client& client,
                                    const coordinator::FinishRequest& finish) const {
  const std::string text = finish.status.ToString();
  if (client.must_succeed) return absl::StrCat("must succeed, but ends with ", text);
  switch (finish.status.code()) {
    case absl::StatusCode::kCancelled:
      return client.cancelled ? "" : "is cancelled, and its client did not leave";
    case absl::StatusCode::kDeadlineExceeded:
      if (text.find("cannot be met") != std::string::npos) {
        return client.untouched() ? "" : "is given up after it was begun";
      }
      // A call that is cancelled just before its deadline counts as one whose deadline passed.
      if (queue_->now() < client.request.deadline && !client.cancelled) {
        return "ends before its deadline";
      }
      if (options_->stalls > 0) return "";  // the engine's clock stood still
      return queue_->now() > client.request.deadline + kDeadlineSlack ? "ends late" : "";
    case absl::StatusCode::kUnavailable:
      if (client.foreign) return "";  // taken while no pipeline served
      // Only before a pipeline has served: streams outlive what ends later.
      return client.untouched() && text.find("not serving") != std::string::npos
                 ? ""
                 : absl::StrCat("is lost: ", text);
    case absl::StatusCode::kResourceExhausted:
      return client.untouched() ? "" : "is refused after it was taken";
    case absl::StatusCode::kAborted:
      return client.taken_over ? "" : "is taken over by nobody";
    case absl::StatusCode::kFailedPrecondition:
      return client.foreign ? "" : "is refused for a class that is its own";
    case absl::StatusCode::kInvalidArgument: {
      const size_t slots = client.request.prompt.size() + client.request.max_tokens - 1;
      return slots > static_cast<size_t>(options_->kv_slots()) ? ""
                                                               : absl::StrCat("is refused: ", text);
    }
    case absl::StatusCode::kInternal:
      // Processes that die one after the other, the last killed from outside while it was alone,
      // may be taken for its doing; workers that live may not.
      if (text.find("times in a row") != std::string::npos) {
        const bool killer = client.request.sampling.top_k() == kOracleKillerTopK;
        const bool dead = deaths_->outside >= 1 && deaths_->outside + deaths_->of_work >= 3;
        return killer || dead ? "" : absl::StrCat("is taken for the cause of losses: ", text);
      }
      return client.got.size() + 1 == client.right.size() && client.right.back().token() < 0
                 ? ""
                 : absl::StrCat("ends with ", text);
    default:
      return absl::StrCat("ends with ", text);
  }
}

std::string SimClients::Open() const {
  std::string text;
  for (const auto& [id, client] : requests_) {
    if (!client.ended) {
      absl::StrAppend(&text, Name(id), " with ", client.got.size(), " of ", client.right.size(),
                      " tokens; ");
    }
  }
  return text;
}

}  // namespace tutti::tests
