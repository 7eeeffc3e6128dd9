#include "client/status_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "client/loading_view.h"

namespace tutti::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Style kPlain(-1);  // no terminal: no colours

v1::GetStatusResponse TwoStages() {
  v1::GetStatusResponse status;
  status.set_model("demo");
  status.set_build("0.1.0");
  status.set_serving(true);
  status.set_uptime_seconds(65);
  v1::PipelineStatus* pipeline = status.add_pipelines();
  pipeline->set_state("serving");
  pipeline->set_epoch(3);
  pipeline->set_block_size(16);
  pipeline->set_blocks_total(1024);
  pipeline->set_kv_tokens_total(16384);
  for (int i = 0; i < 2; ++i) {
    v1::StageStatus* stage = pipeline->add_stages();
    stage->set_stage(i);
    stage->mutable_worker()->set_worker_id(i == 0 ? "w0" : "w1");
    stage->mutable_worker()->set_device("cpu");
    stage->set_first_layer(i * 3);
    stage->set_num_layers(3 - i);
    stage->set_has_embedding(i == 0);
    stage->set_has_head(i == 1);
    stage->mutable_predicted()->set_weights(1 << 20);
    stage->mutable_actual()->set_weights(i == 0 ? 1 << 20 : 2 << 20);
    stage->set_rows(10);
    stage->set_activation_bytes_per_token(2100.4);
  }
  return status;
}

TEST(StatusView, ShowsEveryStageWithItsLayers) {
  const std::string text = RenderStatus(TwoStages(), kPlain);
  EXPECT_THAT(text, HasSubstr("demo: serving, 0 running, up 1 min 5 s\n"));
  EXPECT_THAT(text, HasSubstr("pipeline 0: serving, 0 running, 0 waiting\n"));
  EXPECT_THAT(text, HasSubstr("embedding + 0-2"));
  EXPECT_THAT(text, HasSubstr("3-4 + head"));
  EXPECT_THAT(text, HasSubstr("room for 16,384 tokens"));
  // As planned: one figure. Not as planned: both.
  EXPECT_THAT(text, HasSubstr("1.0 MiB "));
  EXPECT_THAT(text, HasSubstr("2.0 MiB (1.0 MiB)"));
  // Bytes on the link to the next stage; the last stage has none.
  EXPECT_THAT(text, HasSubstr("2,100"));
  EXPECT_THAT(RenderDeviceMap(TwoStages().pipelines(0), false), Not(HasSubstr("\x1b")));
}

TEST(StatusView, GuessesAreToldByWhereTheyCameFrom) {
  v1::GetStatusResponse status = TwoStages();
  EXPECT_THAT(RenderStatus(status, kPlain), Not(HasSubstr("guesses")));
  v1::PipelineStatus* const pipeline = status.mutable_pipelines(0);
  pipeline->set_guessed_tokens(2231);
  for (const uint64_t right : {1000, 400, 98}) pipeline->add_guesses_right(right);
  const auto add = [&](const char* source, uint64_t guessed, uint64_t right) {
    v1::GuessSourceStatus* const added = pipeline->add_guess_sources();
    added->set_source(source);
    added->set_guessed_tokens(guessed);
    added->set_right_tokens(right);
  };
  add("text", 1200, 900);
  add("answers", 0, 0);
  add("draft", 1031, 598);
  EXPECT_THAT(RenderStatus(status, kPlain),
              HasSubstr("\n  guesses: 1,498 of 2,231 right (67 %): text 900 of 1,200, "
                        "draft 598 of 1,031\n"));
}

TEST(StatusView, WhatItDoesStandsFirstAndWhatSeldomChangesLast) {
  v1::GetStatusResponse before = TwoStages();
  before.mutable_requests()->set_generated_tokens(1000);
  v1::GetStatusResponse status = before;
  status.set_uptime_seconds(67);
  status.mutable_requests()->set_generated_tokens(1115);
  status.mutable_pipelines(0)->set_running(3);
  status.set_model_fingerprint("f00");
  const auto pace = TokensPerSecond(before, status);
  ASSERT_TRUE(pace.has_value());
  const std::string text = RenderStatus(status, kPlain, pace);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "demo: serving, 57.5 tokens/s, 3 running, up 1 min 7 s");
  const std::string end = "build 0.1.0, fingerprint f00\n";
  EXPECT_EQ(text.substr(text.size() - end.size()), end);
  EXPECT_THAT(text, HasSubstr("\n  epoch 3\n"));
  // Another coordinator, or the same moment.
  EXPECT_EQ(TokensPerSecond(status, before), std::nullopt);
  EXPECT_EQ(TokensPerSecond(status, status), std::nullopt);
}

TEST(StatusView, ShowsWhatTheCacheDoes) {
  v1::GetStatusResponse status = TwoStages();
  v1::PipelineStatus* pipeline = status.mutable_pipelines(0);
  pipeline->set_blocks_cached(12);
  pipeline->set_prefix_lookup_tokens(4000);
  pipeline->set_prefix_hit_tokens(3000);
  pipeline->set_evictions(7);
  pipeline->set_preemptions(2);
  pipeline->set_backlog_tokens(512);
  pipeline->mutable_stages(0)->set_activation_bytes_out(3 << 20);
  status.set_waiting(5);
  const std::string text = RenderStatus(status, kPlain);
  for (const char* words :
       {"12 cached", "prefix hits: 75 % of 4,000 tokens, 7 evictions", "2 preemptions",
        "512 prompt tokens to compute", "3.0 MiB", "5 requests wait for room on any pipeline"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  EXPECT_THAT(RenderStatus(TwoStages(), kPlain), HasSubstr("prefix hits: none asked for"));
}

TEST(StatusView, NamesALinkThatIsDown) {
  v1::GetStatusResponse status = TwoStages();
  EXPECT_THAT(RenderStatus(status, kPlain), Not(HasSubstr("links:")));
  v1::LinkStatus* link = status.mutable_pipelines(0)->add_links();
  link->set_from("w0");
  link->set_to("w1");
  link->set_purpose("activation");
  link->set_up(true);
  EXPECT_THAT(RenderStatus(status, kPlain), HasSubstr("links: 1 of 1 up\n"));
  link->set_up(false);
  link->set_error("10.0.0.2:50060: certificate\nverify failed");
  EXPECT_THAT(RenderStatus(status, kPlain), HasSubstr("links: 0 of 1 up\n    down: activation "
                                                      "link from w0 to w1: 10.0.0.2:50060: "));
}

TEST(StatusView, NamesPeersThatWereTurnedAway) {
  v1::GetStatusResponse status = TwoStages();
  EXPECT_THAT(RenderStatus(status, kPlain), Not(HasSubstr("\nrefused")));
  v1::RefusedPeer* peer = status.add_refused_peers();
  peer->set_peer("ipv4:10.0.0.7:4001");
  peer->set_worker_id("w7");
  peer->set_reason("another\nbuild");
  peer->set_seconds_ago(3);
  peer->set_times(5);
  EXPECT_THAT(RenderStatus(status, kPlain),
              HasSubstr("\nrefused ipv4:10.0.0.7:4001 as w7 3.0 s ago (5 times): another build\n"));
}

TEST(StatusView, ShowsWhoHoldsAPrompt) {
  v1::LookupPrefixResponse response;
  response.set_prompt_tokens(100);
  EXPECT_EQ(RenderHoldings(response), "the prompt has 100 tokens; no worker holds any of it\n");
  v1::PrefixHolding* holding = response.add_holdings();
  holding->set_pipeline(1);
  holding->set_tokens(96);
  v1::ShardHolding* shard = holding->add_shards();
  shard->set_worker_id("w2");
  shard->set_num_layers(4);
  shard->set_kv_bytes(2048);
  const std::string text = RenderHoldings(response);
  for (const char* words : {"100 tokens", "96", "w2", "0-3", "2.0 KiB"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
}

TEST(StatusView, ShowsEveryRankAndWhoIsSlow) {
  v1::GetStatusResponse status = TwoStages();
  for (int rank = 0; rank < 2; ++rank) {
    v1::StageStatus* stage = status.mutable_pipelines(0)->mutable_stages(rank);
    stage->set_stage(0);
    stage->set_rank(rank);
    stage->set_num_ranks(2);
  }
  status.mutable_pipelines(0)->set_straggler("worker w1 (stage 0 rank 1) takes 2.0 times as long");
  const std::string text = RenderStatus(status, kPlain);
  EXPECT_THAT(text, HasSubstr("0 rank 1"));
  EXPECT_THAT(text, HasSubstr("slow: worker w1 (stage 0 rank 1)"));
}

TEST(StatusView, ShowsHowLongStepsTake) {
  v1::GetStatusResponse status = TwoStages();
  EXPECT_THAT(RenderStatus(status, kPlain), Not(HasSubstr("step times")));
  for (const int32_t rows : {64, 1}) {
    (*status.mutable_pipelines(0)->mutable_step_seconds())[rows] = 0.01 * rows;
  }
  status.mutable_pipelines(0)->set_bounded_steps(1200);
  EXPECT_THAT(RenderStatus(status, kPlain),
              HasSubstr("\n  step times: 1 row 10 ms, 64 rows 640 ms; fewer rows of prompts for "
                        "answers'\n      sake in 1,200 steps\n"));
}

TEST(StatusView, ShowsStepsBesideTheirPredictionAndWhoIdles) {
  v1::GetStatusResponse status = TwoStages();
  v1::StageStatus* stage = status.mutable_pipelines(0)->mutable_stages(1);
  stage->set_step_seconds(0.002);
  stage->set_predicted_step_seconds(0.001);
  stage->set_bubble_share(0.37);
  const std::string text = RenderStatus(status, kPlain);
  for (const char* words : {"step (plan)", "2.0 ms (1.0 ms)", "bubble", "37 %"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
}

TEST(StatusView, ShowsTheLayoutThatWasChosenAndWhatWasNot) {
  v1::GetStatusResponse status = TwoStages();
  EXPECT_THAT(RenderStatus(status, kPlain), Not(HasSubstr("layout:")));
  v1::LayoutChoice* layout = status.mutable_layout();
  layout->set_workers(4);
  layout->mutable_chosen()->set_stages(2);
  layout->mutable_chosen()->set_ranks(2);
  layout->mutable_chosen()->set_pipelines(1);
  for (int i = 0; i < 5; ++i) {
    v1::LayoutTried* rejected = layout->add_rejected();
    rejected->set_stages(1);
    rejected->set_ranks(1);
    rejected->set_pipelines(4);
    rejected->set_why_rejected("lacks 5 bytes on w1");
  }
  const std::string text = RenderStatus(status, kPlain);
  EXPECT_THAT(text,
              HasSubstr("layout: 2 stages of 2 ranks, chosen for 4 workers of unknown speed"));
  EXPECT_THAT(text, HasSubstr("rejected: 4 pipelines of 1 stage (lacks 5 bytes on w1)"));
  EXPECT_THAT(text, HasSubstr("and 2 more"));
}

TEST(StatusView, NamesSpeedsThatWereMeasuredBesideOthers) {
  v1::GetStatusResponse status = TwoStages();
  EXPECT_THAT(RenderStatus(status, kPlain), Not(HasSubstr("speeds:")));
  v1::WorkerStatus* const worker = status.mutable_pipelines(0)->mutable_stages(0)->mutable_worker();
  worker->set_worker_id("w0");
  worker->set_speed_others_share(0.41);
  v1::WorkerStatus* const idle = status.add_idle_workers();
  idle->set_worker_id("w9");
  idle->set_speed_others_share(0.8);
  // In lines of a screen.
  const std::string text = absl::StrReplaceAll(RenderStatus(status, kPlain), {{"\n    ", " "}});
  EXPECT_THAT(text, HasSubstr("go by them: w0 (41 %), w9 (80 %);"));
}

TEST(StatusView, SaysInWhichClassAndWhatThatCosts) {
  v1::GetStatusResponse status;
  v1::NumericsChoice* const numerics = status.mutable_numerics();
  numerics->set_numerics_class("cpu-f32");
  numerics->set_why("the only one that all 3 workers can compute");
  numerics->set_cost("w0 would be about 1.6 times as quick at prompts in cpu-bf16dot");
  EXPECT_THAT(
      RenderStatus(status, kPlain),
      HasSubstr("numerics: cpu-f32, the only one that all 3 workers can compute (not settled"));
  numerics->set_settled(true);
  const std::string text = RenderStatus(status, kPlain);
  EXPECT_THAT(text, HasSubstr("the only one that all 3 workers can compute\n  w0 would be about"));
  EXPECT_EQ(text.find("not settled"), std::string::npos);
  status.clear_numerics();
  EXPECT_EQ(RenderStatus(status, kPlain).find("numerics"), std::string::npos);
}

TEST(StatusView, ShowsRowsKeptAndRecoveries) {
  v1::GetStatusResponse status = TwoStages();
  EXPECT_THAT(RenderStatus(status, kPlain), Not(HasSubstr("rows kept")));
  EXPECT_THAT(RenderStatus(status, kPlain), Not(HasSubstr("recovery")));
  v1::PipelineStatus* const pipeline = status.mutable_pipelines(0);
  pipeline->mutable_stages(0)->mutable_predicted()->set_kept_rows(3 << 20);
  pipeline->set_rebuilt_tokens(1234);
  v1::WorkerStatus* const idle = status.add_idle_workers();
  idle->set_worker_id("w7");
  idle->set_standby("slow, stage 1 of pipeline 0, loaded");
  for (int i = 0; i < 4; ++i) {
    v1::Recovery* const recovery = status.add_recoveries();
    recovery->set_cause("worker w1 (stage 1) was lost");
    recovery->set_sequences(16);
    recovery->set_seconds_ago(7);
    if (i > 0) recovery->set_recovered_ms(450);
  }
  status.mutable_requests()->set_recovered(48);
  const std::string text = RenderStatus(status, kPlain);
  EXPECT_THAT(text, HasSubstr("rows kept for lost stages: room for 3.0 MiB; 1,234 tokens rebuilt"));
  EXPECT_THAT(text, HasSubstr("slow, stage 1 of pipeline 0, loaded"));
  EXPECT_THAT(text, HasSubstr("16 sequences of pipeline 0 are still to go on: worker w1"));
  EXPECT_THAT(text, HasSubstr("16 sequences of pipeline 0 went on after 450 ms"));
  EXPECT_THAT(text, HasSubstr("and 1 more; --json has all"));
  EXPECT_THAT(text, HasSubstr("48 recovered"));
}

TEST(StatusView, SaysWhyItDoesNotServe) {
  v1::GetStatusResponse status = TwoStages();
  status.set_serving(false);
  status.set_why_not_serving("worker w1 was lost\x1b[2J");
  const std::string text = RenderStatus(status, kPlain);
  EXPECT_THAT(text, HasSubstr("not serving (worker w1 was lost\\x1b[2J)"));
}

TEST(StatusView, ProgressNamesTheWorkers) {
  v1::GetStatusResponse status = TwoStages();
  status.set_serving(false);
  status.mutable_pipelines(0)->mutable_stages(0)->set_loaded_share(1);
  status.mutable_pipelines(0)->mutable_stages(1)->set_loaded_share(0.45);
  EXPECT_EQ(RenderProgress(status), "loading: w0 done, w1 45 % of 1.0 MiB");
  EXPECT_EQ(RenderMilestone(status), "quarter 2");

  v1::StageStatus* const fetching = status.mutable_pipelines(0)->mutable_stages(1);
  fetching->set_loaded_share(0);
  fetching->set_fetch("fetched 25 %, 3.0 GiB of 12.0 GiB, 200 MiB/s, from the coordinator");
  EXPECT_EQ(
      RenderProgress(status),
      "loading: w0 done, w1 fetched 25 %, 3.0 GiB of 12.0 GiB, 200 MiB/s, from the coordinator");
  EXPECT_THAT(RenderStatus(status, kPlain),
              HasSubstr("w1 fetched 25 %, 3.0 GiB of 12.0 GiB, 200 MiB/s"));

  v1::GetStatusResponse waiting;
  waiting.set_why_not_serving("1 of 2 workers joined");
  EXPECT_EQ(RenderProgress(waiting), "1 of 2 workers joined");
  EXPECT_EQ(RenderMilestone(waiting), "1 of 2 workers joined");
}

TEST(StatusView, AnEmptyStatusIsShownToo) {
  EXPECT_THAT(RenderStatus(v1::GetStatusResponse(), kPlain), HasSubstr("not serving"));
  EXPECT_EQ(RenderProgress(v1::GetStatusResponse()), "starting");
}

}  // namespace
}  // namespace tutti::client
