#include "coordinator/metrics/status_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;

// Every number is another.
v1::GetStatusResponse Status(int pipelines, int stages) {
  v1::GetStatusResponse status;
  status.set_model("m");
  status.set_serving(true);
  status.set_waiting(3);
  status.mutable_requests()->set_finished(11);
  status.add_recoveries()->set_recovered_ms(250);
  for (int p = 0; p < pipelines; ++p) {
    v1::PipelineStatus* const pipeline = status.add_pipelines();
    pipeline->set_pipeline(static_cast<uint32_t>(p));
    pipeline->set_state("serving");
    pipeline->set_waiting(2);
    pipeline->set_blocks_total(8);
    pipeline->set_blocks_in_use(2);
    pipeline->set_block_size(16);
    pipeline->set_bounded_steps(5);
    pipeline->set_guess_verifications(9);
    pipeline->set_guessed_tokens(30);
    for (const uint64_t right : {8, 4, 0}) pipeline->add_guesses_right(right);
    v1::GuessSourceStatus* const source = pipeline->add_guess_sources();
    source->set_source("draft");
    source->set_guessed_tokens(20);
    source->set_right_tokens(7);
    pipeline->set_draft_seconds(0.5);
    for (const int32_t rows : {1, 64}) (*pipeline->mutable_step_seconds())[rows] = 0.25 * rows;
    for (int s = 0; s < stages; ++s) {
      v1::StageStatus* const stage = pipeline->add_stages();
      stage->set_stage(s);
      stage->mutable_worker()->set_worker_id(absl::StrCat("w", p * stages + s));
      stage->set_compute_seconds_total(1.5);
      stage->mutable_actual()->set_kv(4096);
      v1::LinkStatus* const link = pipeline->add_links();
      link->set_from("w0");
      link->set_to(absl::StrCat("w", s));
      link->set_purpose("activation");
      link->set_up(true);
    }
  }
  return status;
}

TEST(StatusMetrics, TellOfPipelinesRanksAndLinks) {
  metrics::Exposition text;
  WriteStatus(Status(2, 1), {.refused_peers = 4, .lost_workers = 1}, &text);
  const std::string all = text.Release();
  for (const char* line :
       {"tutti_serving 1\n", "tutti_requests_waiting 3\n",
        "tutti_outputs_ended_total{how=\"finished\"} 11\n", "tutti_refused_peers_total 4\n",
        "tutti_lost_workers_total 1\n", "tutti_pipeline_kv_blocks_in_use{pipeline=\"1\"} 2\n",
        "tutti_pipeline_bounded_steps_total{pipeline=\"1\"} 5\n",
        "tutti_pipeline_guess_verifications_total{pipeline=\"1\"} 9\n",
        "tutti_pipeline_guessed_tokens_total{pipeline=\"1\"} 30\n",
        "tutti_pipeline_accepted_tokens_total{pipeline=\"1\"} 12\n",
        "tutti_pipeline_source_guessed_tokens_total{pipeline=\"1\",source=\"draft\"} 20\n",
        "tutti_pipeline_source_accepted_tokens_total{pipeline=\"1\",source=\"draft\"} 7\n",
        "tutti_pipeline_draft_seconds_total{pipeline=\"1\"} 0.5\n",
        "tutti_pipeline_step_seconds{pipeline=\"1\",rows=\"1\"} 0.25\n",
        "tutti_pipeline_step_seconds{pipeline=\"1\",rows=\"64\"} 16\n",
        "tutti_rank_compute_seconds_total{pipeline=\"1\",stage=\"0\",rank=\"0\",worker=\"w1\"} "
        "1.5\n",
        "tutti_rank_memory_bytes{pipeline=\"0\",stage=\"0\",rank=\"0\",worker=\"w0\",kind=\"kv\"} "
        "4096\n",
        "tutti_link_up{pipeline=\"0\",from=\"w0\",to=\"w0\",purpose=\"activation\"} 1\n",
        "tutti_last_recovery_seconds{part=\"recovered\"} 0.25\n"}) {
    EXPECT_THAT(all, HasSubstr(line));
  }
}

// The text format wants all samples of a family together.
TEST(StatusMetrics, BeginEveryFamilyOnce) {
  metrics::Exposition text;
  WriteStatus(Status(3, 2), {}, &text);
  WriteVllmStatus(Status(3, 2), &text);
  std::set<std::string> begun;
  std::string family;
  const std::vector<std::string> lines = absl::StrSplit(text.Release(), '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[1] == "TYPE") {
      family = words[2];
      EXPECT_TRUE(begun.insert(family).second) << family;
    } else if (words[0] != "#") {
      EXPECT_THAT(line, ::testing::StartsWith(family)) << line;
    }
  }
}

TEST(VllmStatus, HasAnEngineForEachPipeline) {
  metrics::Exposition text;
  WriteVllmStatus(Status(2, 1), &text);
  const std::string all = text.Release();
  // A request that no pipeline has room for is counted once.
  EXPECT_THAT(all, HasSubstr("vllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 5\n"));
  EXPECT_THAT(all, HasSubstr("vllm:num_requests_waiting{model_name=\"m\",engine=\"1\"} 2\n"));
  EXPECT_THAT(all, HasSubstr("vllm:kv_cache_usage_perc{model_name=\"m\",engine=\"1\"} 0.25\n"));
  for (const char* line :
       {"num_drafts_total{model_name=\"m\",engine=\"1\"} 9\n",
        "num_draft_tokens_total{model_name=\"m\",engine=\"1\"} 30\n",
        "num_accepted_tokens_total{model_name=\"m\",engine=\"1\"} 12\n",
        "num_accepted_tokens_per_pos_total{model_name=\"m\",engine=\"1\",position=\"1\"} 4\n"}) {
    EXPECT_THAT(all, HasSubstr(absl::StrCat("vllm:spec_decode_", line)));
  }
  EXPECT_THAT(all, HasSubstr("block_size=\"16\",num_gpu_blocks=\"8\""));
  // Nothing is told of what there is not.
  for (const char* absent : {"sleep", "lora", "mm_cache", "external", "deferred"}) {
    EXPECT_THAT(all, ::testing::Not(HasSubstr(absent)));
  }
}

// Says how long the text of a large cluster takes, and promises nothing: machines differ.
TEST(StatusMetrics, OfALargeCluster) {
  const v1::GetStatusResponse status = Status(64, 4);
  const auto begin = std::chrono::steady_clock::now();
  metrics::Exposition text;
  WriteStatus(status, {}, &text);
  WriteVllmStatus(status, &text);
  const size_t bytes = text.Release().size();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::cout << "64 pipelines of 4 stages: " << bytes << " bytes in " << took.count() << " ms\n";
  EXPECT_GT(bytes, 100'000U);
}

}  // namespace
}  // namespace tutti::coordinator
