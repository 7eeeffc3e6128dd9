#include "coordinator/service/served_numerics.h"

#include "gtest/gtest.h"

namespace tutti::coordinator {
namespace {

v1::PipelineStatus PipelineIn(const char* state, const char* numerics, bool exact) {
  v1::PipelineStatus status;
  status.set_state(state);
  status.set_numerics_class(numerics);
  status.set_exact(exact);
  return status;
}

TEST(ServedNumerics, APipelineThatLoadsServesNobody) {
  v1::GetStatusResponse status;
  for (const char* state : {"waiting for workers", "loading", "linking"}) {
    *status.add_pipelines() = PipelineIn(state, "cpu-f32", true);
  }
  v1::GetModelResponse model;
  FillServedNumerics(status, &model);
  EXPECT_EQ(model.numerics_class(), "");
  EXPECT_FALSE(model.has_exact());
}

TEST(ServedNumerics, OfThoseThatServeAllAreExactOrTheServiceIsNot) {
  v1::GetStatusResponse status;
  *status.add_pipelines() = PipelineIn("loading", "other", false);
  *status.add_pipelines() = PipelineIn("serving", "cpu-f32", true);
  v1::GetModelResponse model;
  FillServedNumerics(status, &model);
  EXPECT_EQ(model.numerics_class(), "cpu-f32");
  EXPECT_TRUE(model.exact());

  *status.add_pipelines() = PipelineIn("serving", "cpu-f32", false);
  v1::GetModelResponse both;
  FillServedNumerics(status, &both);
  EXPECT_TRUE(both.has_exact());
  EXPECT_FALSE(both.exact());
}

}  // namespace
}  // namespace tutti::coordinator
