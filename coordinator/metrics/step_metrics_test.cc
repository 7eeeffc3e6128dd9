#include "coordinator/metrics/step_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StepMetrics, CountEachPipelinesStepsByTheirTokens) {
  StepMetrics steps;
  steps.OnStep(PipelineId(0), 1);
  steps.OnStep(PipelineId(0), 9);
  steps.OnStep(PipelineId(3), 20000);
  metrics::Exposition text;
  steps.Write(&text);
  const std::string all = text.Release();
  for (const char* line : {"# TYPE tutti_pipeline_step_tokens histogram\n",
                           "tutti_pipeline_step_tokens_bucket{pipeline=\"0\",le=\"1.0\"} 1\n",
                           "tutti_pipeline_step_tokens_bucket{pipeline=\"0\",le=\"8.0\"} 1\n",
                           "tutti_pipeline_step_tokens_bucket{pipeline=\"0\",le=\"16.0\"} 2\n",
                           "tutti_pipeline_step_tokens_sum{pipeline=\"0\"} 10\n",
                           "tutti_pipeline_step_tokens_bucket{pipeline=\"3\",le=\"16384.0\"} 0\n",
                           "tutti_pipeline_step_tokens_bucket{pipeline=\"3\",le=\"+Inf\"} 1\n",
                           "tutti_pipeline_step_tokens_count{pipeline=\"3\"} 1\n"}) {
    EXPECT_THAT(all, HasSubstr(line));
  }
  EXPECT_THAT(all, Not(HasSubstr("pipeline=\"1\"")));
}

TEST(StepMetrics, HaveVllmsNameFromTheStart) {
  const StepMetrics steps;
  metrics::Exposition text;
  steps.WriteVllm("m", &text);
  const std::string all = text.Release();
  EXPECT_THAT(all, HasSubstr("# TYPE vllm:iteration_tokens_total histogram\n"));
  EXPECT_THAT(all,
              HasSubstr("vllm:iteration_tokens_total_count{model_name=\"m\",engine=\"0\"} 0\n"));
}

}  // namespace
}  // namespace tutti::coordinator
