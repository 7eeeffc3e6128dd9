// One voice, end to end: the same requests to clusters that differ in everything that must not
// matter. Tokens, text and the bits of every log-probability must be those of one worker with one
// thread, asked one request at a time.
//
// Each case is drawn from a printed seed. TUTTI_METAMORPHIC_SEED=n runs that case alone,
// TUTTI_METAMORPHIC_CASES=n as many.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "coordinator/sequence.h"
#include "coordinator/steps/guess_source.h"
#include "model/config_json.h"
#include "model/partition.h"
#include "nlohmann/json.hpp"
#include "tests/support/in_process_cluster.h"

namespace tutti::tests {
namespace {

std::string Environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

// A random checkpoint with the demo model's vocabulary and another shape and type.
std::string MakeModel(const std::string& name, const std::string& dtype, bool tied, int heads,
                      int kv_heads, int intermediate) {
  const std::filesystem::path dir = std::filesystem::temp_directory_path() /
                                    absl::StrCat("tutti-metamorphic-", getpid(), "-", name);
  std::filesystem::create_directories(dir);
  std::ifstream in(DemoDir() + "/config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  config["hidden_size"] = 80;
  config["intermediate_size"] = intermediate;
  config["num_hidden_layers"] = 5;
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = kv_heads;
  config["head_dim"] = 24;
  config["tie_word_embeddings"] = tied;
  config.erase("layer_types");
  const std::string config_file = (dir / "shape.json").string();
  std::ofstream(config_file) << config.dump();
  const std::string out = (dir / "model").string();
  const std::string command =
      absl::StrCat(Environment("TUTTI_BINARY_DIR", "build/release"),
                   "/bin/make_random_model --config ", config_file, " --output ", out, " --dtype ",
                   dtype, " --seed 11 --copy-tokenizer ", DemoDir(), " >/dev/null 2>&1");
  CHECK(std::system(command.c_str()) == 0) << command;
  return out;
}

// Requests of all kinds: greedy and sampled, with penalties and filters, short and long prompts,
// some that begin alike and two with one prompt.
std::vector<v1::GenerateRequest> Workload() {
  std::vector<v1::GenerateRequest> requests;
  Random random(5);
  for (int i = 0; i < 16; ++i) {
    v1::GenerateRequest& request = requests.emplace_back();
    const int64_t length = i == 0 ? 1 : random.Between(2, i % 4 == 0 ? 150 : 40);
    const int64_t alike = i % 3 == 1 ? 70 : 0;
    for (int64_t t = 0; t < alike; ++t) {
      request.mutable_token_ids()->add_ids(static_cast<int32_t>(7 * t + 3));
    }
    for (int64_t t = 0; t < length; ++t) {
      request.mutable_token_ids()->add_ids(static_cast<int32_t>(random.Between(0, 1000)));
    }
    if (i == 15) *request.mutable_token_ids() = requests[8].token_ids();
    v1::SamplingParams& sampling = *request.mutable_sampling();
    sampling.set_max_tokens(static_cast<uint32_t>(random.Between(4, 24)));
    sampling.set_ignore_eos(true);
    sampling.set_logprobs(true);
    sampling.set_top_logprobs(static_cast<uint32_t>(i % 4));
    sampling.set_seed(static_cast<uint64_t>(100 + i));
    sampling.set_temperature(i % 3 == 0 ? 0 : 0.4f + 0.1f * static_cast<float>(i));
    if (i % 2 == 1) sampling.set_top_p(0.9f);
    if (i % 4 == 2) sampling.set_top_k(30);
    if (i % 5 == 3) sampling.set_repetition_penalty(1.3f);
    if (i % 5 == 4) sampling.set_presence_penalty(0.7f);
    if (i % 7 == 6) (*sampling.mutable_logit_bias())[7] = 5;
    if (i % 6 == 1) {
      for (int32_t id = i; id < 1200; id += i % 4 == 3 ? 80 : 3) sampling.add_allowed_token_ids(id);
    }
    if (i % 5 == 2) {
      for (const char* const word : {"a", "of the", "12", "capital"}) sampling.add_bad_words(word);
    }
    if (i % 3 == 2) {
      sampling.set_min_tokens(sampling.max_tokens() / 2);
      for (int32_t id = i; id < 1200; id += 11) sampling.add_stop_token_ids(id);
    }
  }
  return requests;
}

// Everything of an answer that must not change, as text that a failure can show.
std::string Voice(const Answer& answer) {
  std::string voice = answer.status.ToString();
  for (const v1::OutputToken& token : answer.tokens) {
    absl::StrAppend(&voice, " ", token.id(), ":",
                    absl::Hex(std::bit_cast<uint32_t>(token.logprob())));
    for (const v1::TokenLogprob& top : token.top()) {
      absl::StrAppend(&voice, "/", top.id(), ":",
                      absl::Hex(std::bit_cast<uint32_t>(top.logprob())));
    }
  }
  return absl::StrCat(voice, " | ", answer.text, " | ", answer.finish.reason(), " ",
                      answer.finish.usage().completion_tokens());
}

// The layers cut into `stages` parts at random.
std::vector<int32_t> DrawSplit(Random* random, int32_t layers, int32_t stages) {
  std::vector<int32_t> split(static_cast<size_t>(stages), 1);
  for (int32_t left = layers - stages; left > 0; --left) {
    ++split[static_cast<size_t>(random->Between(0, stages - 1))];
  }
  return split;
}

// Workers of a cluster: each is a server with threads of its own.
constexpr int kWorkersMax = 10;

// Each stage of its own number of ranks, of those that the model takes; often one.
std::vector<int> DrawRanks(Random* random, const std::string& dir, size_t stages) {
  const model::ModelConfig config = model::LoadModelConfig(dir).value();
  std::vector<int> ranks(stages, 1);
  if (random->Chance(0.3)) return ranks;
  int spare = kWorkersMax - static_cast<int>(stages);  // beside one for each stage
  for (int& count : ranks) {
    do {
      count = 1 << random->Between(0, 3);
    } while (!model::CheckRanks(config, count).ok() || count - 1 > spare);
    spare -= count - 1;
  }
  return ranks;
}

struct Model {
  std::string dir;
  int32_t layers = 0;
  std::vector<std::string> voices;                  // of the workload, from the plainest cluster
  std::map<uint64_t, std::vector<TokenId>> tokens;  // of the same answers, by their seeds
};

// Guesses what the answers are, and one token in five wrongly.
class AnswerGuesses : public coordinator::GuessSource {
 public:
  AnswerGuesses(uint64_t seed, const std::map<uint64_t, std::vector<TokenId>>* tokens)
      : random_(seed, /*stream=*/2), tokens_(tokens) {}

  int32_t Guess(const coordinator::Sequence& sequence, int32_t most,
                std::vector<TokenId>* guesses) override {
    const std::vector<TokenId>& answer = tokens_->at(sequence.request.sampling.seed());
    const auto have = static_cast<size_t>(sequence.output_tokens());
    for (size_t i = have; i < answer.size() && i < have + static_cast<size_t>(most); ++i) {
      guesses->push_back(random_.Chance(0.2) ? 7 : answer[i]);
    }
    return 0;
  }
  void Forget(const coordinator::Sequence&) override {}

 private:
  Random random_;
  const std::map<uint64_t, std::vector<TokenId>>* const tokens_;
};

class MetamorphicTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = new std::map<std::string, Model>;
    (*models_)["demo"].dir = DemoDir();
    (*models_)["untied-f32"].dir = MakeModel("untied-f32", "f32", false, 6, 2, 100);
    (*models_)["tied-f16"].dir = MakeModel("tied-f16", "f16", true, 8, 1, 77);
    (*models_)["untied-bf16"].dir = MakeModel("untied-bf16", "bf16", false, 8, 8, 64);
    for (auto& [name, model] : *models_) {
      InProcessClusterOptions plainest{.model_dir = model.dir};
      plainest.engine.enable_prefix_caching = false;
      InProcessCluster plain(plainest);
      model.layers = plain.Status().pipelines(0).stages(0).num_layers();
      for (const v1::GenerateRequest& request : Workload()) {
        const Answer answer = plain.Generate(request);
        CHECK(answer.status.ok()) << name << ": " << answer.status.ToString();
        model.voices.push_back(Voice(answer));
        std::vector<TokenId>& tokens = model.tokens[request.sampling().seed()];
        for (const v1::OutputToken& token : answer.tokens) tokens.push_back(token.id());
      }
    }
  }
  static void TearDownTestSuite() {
    for (const auto& [name, model] : *models_) {
      if (name != "demo") {
        std::filesystem::remove_all(std::filesystem::path(model.dir).parent_path());
      }
    }
    delete models_;
  }

  void RunCase(uint64_t seed) {
    Random random(seed);
    auto which =
        std::next(models_->begin(), random.Between(0, static_cast<int64_t>(models_->size()) - 1));
    const Model& model = which->second;
    InProcessClusterOptions options{.model_dir = model.dir};
    options.layers = DrawSplit(&random, model.layers,
                               static_cast<int32_t>(random.Between(1, std::min(4, model.layers))));
    options.ranks = DrawRanks(&random, model.dir, options.layers.size());
    options.threads = static_cast<int>(random.Between(1, 2));
    options.engine.block_size = static_cast<int32_t>(16 << random.Between(0, 2));
    options.engine.max_batch_tokens = static_cast<int32_t>(random.Between(1, 200));
    options.engine.chunk_tokens = static_cast<int32_t>(random.Between(1, 160));
    options.engine.max_sequences = static_cast<int32_t>(random.Between(1, 16));
    options.engine.enable_prefix_caching = random.Chance(0.8);
    // Sometimes so little KV room that sequences must take turns.
    if (random.Chance(0.3)) options.engine.kv_tokens_max = 320;
    AnswerGuesses guesses(seed, &model.tokens);
    options.engine.guess_source = &guesses;
    options.engine.guesses_stretch = 100;
    if (random.Chance(0.8))
      options.engine.guesses_max = static_cast<int32_t>(random.Between(1, 15));
    // A draft model that is mostly right, as it is the model itself, or wrong.
    Random drafts(seed, /*stream=*/3);
    if (drafts.Chance(0.6)) {
      const auto other =
          std::next(models_->begin(), drafts.Between(0, static_cast<int64_t>(models_->size()) - 1));
      options.draft_dir = drafts.Chance(0.7) ? model.dir : other->second.dir;
      options.engine.drafts_max = static_cast<int32_t>(drafts.Between(1, 15));
      if (drafts.Chance(0.7)) options.engine.guesses_max = 0;
    }
    const std::string drawn = absl::StrCat(
        "seed ", seed, ": ", which->first, ", layers ", absl::StrJoin(options.layers, "+"),
        ", ranks ", absl::StrJoin(options.ranks, "+"), ", ", options.threads,
        " threads, blocks of ", options.engine.block_size, ", budget ",
        options.engine.max_batch_tokens, ", chunk ", options.engine.chunk_tokens, ", ",
        options.engine.max_sequences, " at once, KV ", options.engine.kv_tokens_max,
        options.engine.enable_prefix_caching ? ", prefixes cached" : ", nothing cached", ", ",
        options.engine.guesses_max, " guesses, ", options.engine.drafts_max, " drafts",
        options.draft_dir.empty() || options.draft_dir == model.dir ? "" : " of another model");
    SCOPED_TRACE(drawn);
    std::printf("%s\n", drawn.c_str());
    InProcessCluster cluster(options);
    // The second time, the blocks of the first time may be found.
    for (const char* const time : {"the first time", "the second time"}) {
      const std::vector<Answer> answers = cluster.Generate(Workload());
      for (size_t i = 0; i < answers.size(); ++i) {
        EXPECT_EQ(Voice(answers[i]), model.voices[i]) << "request " << i << " " << time;
        cached_tokens_ += answers[i].finish.usage().cached_prompt_tokens();
        accepted_tokens_ += answers[i].finish.usage().accepted_tokens();
      }
      if (!options.engine.enable_prefix_caching) break;
    }
    cluster.WaitIdle();
    const v1::GetStatusResponse status = cluster.Status();
    for (const v1::PipelineStatus& pipeline : status.pipelines()) {
      for (const v1::GuessSourceStatus& source : pipeline.guess_sources()) {
        if (source.source() == "draft") right_drafts_ += source.right_tokens();
      }
    }
  }

  static std::map<std::string, Model>* models_;
  uint64_t cached_tokens_ = 0;    // found by the cases so far
  uint64_t accepted_tokens_ = 0;  // guessed right
  uint64_t right_drafts_ = 0;     // of them, by a draft model
};
std::map<std::string, Model>* MetamorphicTest::models_ = nullptr;

TEST_F(MetamorphicTest, NothingButTheRequestChangesTheAnswer) {
  const std::string replay = Environment("TUTTI_METAMORPHIC_SEED", "");
  if (!replay.empty()) return RunCase(std::stoull(replay));
  const uint64_t cases = std::stoull(Environment("TUTTI_METAMORPHIC_CASES", "12"));
  const uint64_t first = std::stoull(Environment("TUTTI_METAMORPHIC_FIRST", "1"));
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    RunCase(seed);
    if (HasFailure()) return;
  }
  if (cases >= 12) {
    EXPECT_GT(cached_tokens_, 200 * cases) << "hardly anything was shared";
    EXPECT_GT(accepted_tokens_, 30 * cases) << "hardly anything was guessed";
    EXPECT_GT(right_drafts_, cases) << "hardly anything was drafted";
  }
}

// One rank of two dies in the middle of an answer and comes back: the answer goes on, and not a bit
// of it is another.
TEST_F(MetamorphicTest, ALostRankIsAPauseOnly) {
  InProcessClusterOptions options{.model_dir = DemoDir(), .layers = {2, 2}, .ranks = {2, 2}};
  InProcessCluster cluster(options);
  v1::GenerateRequest request = Workload()[0];
  request.mutable_sampling()->set_max_tokens(400);
  request.mutable_sampling()->set_ignore_eos(true);
  const std::string undisturbed = Voice(cluster.Generate(request));
  uint64_t recovered = 0;
  for (const size_t lost : {size_t{1}, size_t{2}}) {
    Answer answer;
    grpc::ClientContext context;
    const auto reader = cluster.inference()->Generate(&context, request);
    v1::GenerateResponse response;
    bool died = false;
    while (reader->Read(&response)) {
      Append(response, &answer);
      if (died || answer.tokens.size() < 5) continue;
      cluster.StopWorker(lost);
      cluster.StartWorker(lost);
      died = true;
    }
    const grpc::Status status = reader->Finish();
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(Voice(answer), undisturbed);
    EXPECT_GT(cluster.Status().requests().recovered(), recovered) << "the loss hit nobody";
    recovered = cluster.Status().requests().recovered();
  }
  EXPECT_EQ(Voice(cluster.Generate(Workload()[3])), models_->at("demo").voices[3]);
}

}  // namespace
}  // namespace tutti::tests
