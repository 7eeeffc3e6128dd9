#include "coordinator/fleet/class_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::coordinator {
namespace {

using testing::HasSubstr;

// Processors that have the dot instruction, and such that have not.
ClassCandidate Zen4(const std::string& id) {
  return {id, {{"cpu-bf16dot", 1.6e11}, {"cpu-f32", 1e11}}, ""};
}
ClassCandidate Zen3(const std::string& id) {
  return {id, {{"cpu-f32", 0.8e11}, {"cpu-bf16dot", 0.7e11}}, ""};
}
ClassCandidate OnlyF32(const std::string& id) { return {id, {{"cpu-f32", 0.8e11}}, ""}; }

TEST(ClassChoiceTest, TheBestThatAllCanCompute) {
  const ClassChoice choice = ChooseClass({Zen4("w0"), Zen4("w1"), OnlyF32("w3")}, "");
  EXPECT_EQ(choice.numerics_class, "cpu-f32");
  EXPECT_EQ(choice.why, "the only one that all 3 workers can compute");
  EXPECT_EQ(choice.cost,
            "w0, w1 would be about 1.6 times as quick at prompts in cpu-bf16dot, which w3 cannot "
            "compute");
  EXPECT_TRUE(choice.was_open);
}

TEST(ClassChoiceTest, AnInexactClassIsNeverChosen) {
  const ClassCandidate both{"w0", {{"fast", 9e11, true}, {"cpu-f32", 1e11}}, "fast"};
  EXPECT_EQ(ChooseClass({both}, "fast").numerics_class, "cpu-f32");
  const ClassCandidate only{"w1", {{"fast", 9e11, true}}, ""};
  const ClassChoice none = ChooseClass({only}, "");
  EXPECT_EQ(none.numerics_class, "");
  EXPECT_THAT(none.why, HasSubstr("fast is not exact"));
  EXPECT_THAT(none.why, HasSubstr("--numerics-class fast"));
}

TEST(ClassChoiceTest, TheQuickestForAllTogether) {
  const ClassChoice one = ChooseClass({Zen4("w0"), Zen4("w3"), Zen3("w1"), Zen3("w2")}, "");
  EXPECT_EQ(one.numerics_class, "cpu-bf16dot") << "2 x 1.6 + 2 x 0.7 against 2 x 1 + 2 x 0.8";
  EXPECT_EQ(one.why, "the quickest of those that all 4 workers can compute");
  EXPECT_EQ(one.cost, "w1, w2 would be about 1.1 times as quick at prompts in cpu-f32");
  std::vector<ClassCandidate> many = {Zen4("w0")};
  for (int i = 1; i < 9; ++i) many.push_back(Zen3("w" + std::to_string(i)));
  EXPECT_EQ(ChooseClass(many, "").numerics_class, "cpu-f32");
  EXPECT_EQ(ChooseClass({Zen4("w0")}, "").cost, "") << "its best";
}

TEST(ClassChoiceTest, WhatIsKeptForNobodyIsSaid) {
  std::vector<ClassCandidate> workers = {Zen4("w0"), Zen4("w1"), OnlyF32("w3")};
  for (ClassCandidate& worker : workers) worker.last = "cpu-f32";
  EXPECT_EQ(CostNow(workers, "cpu-f32"), ChooseClass(workers, "").cost) << "w3 needs it";
  workers.pop_back();
  EXPECT_EQ(ChooseClass(workers, "").numerics_class, "cpu-f32") << "kept for begun answers";
  EXPECT_EQ(CostNow(workers, "cpu-f32"),
            "w0, w1 would be about 1.6 times as quick at prompts in cpu-bf16dot; chosen anew it "
            "would be cpu-bf16dot, which all can compute: restart the coordinator with "
            "--numerics-class cpu-bf16dot when no answer begun in cpu-f32 need go on");
  EXPECT_EQ(CostNow({Zen3("w1"), Zen3("w2")}, "cpu-f32"), "");
  const ClassCandidate strange{"w4", {{"strange", 1e11}}, ""};
  EXPECT_EQ(CostNow({Zen3("w1"), strange}, "cpu-bf16dot"),
            "w1 would be about 1.1 times as quick at prompts in cpu-f32, which w4 cannot compute; "
            "w4 cannot compute it")
      << "all could compute none";
}

// The noise of a measurement must not decide bits: the cluster may be started again tomorrow.
TEST(ClassChoiceTest, LittleSpeedDecidesNothing) {
  for (const double speed : {0.65e11, 0.8e11, 0.95e11}) {
    std::vector<ClassCandidate> workers = {Zen3("w0"), Zen3("w1")};
    for (ClassCandidate& worker : workers) worker.offers[1].flops_per_second = speed;
    EXPECT_EQ(ChooseClass(workers, "").numerics_class, "cpu-f32") << speed;
  }
}

TEST(ClassChoiceTest, WithoutSpeedsTheOneThatMostNameFirst) {
  std::vector<ClassCandidate> workers = {Zen4("w0"), Zen4("w1"), Zen3("w2")};
  workers[1].offers[0].flops_per_second = 0;
  const ClassChoice choice = ChooseClass(workers, "");
  EXPECT_EQ(choice.numerics_class, "cpu-bf16dot");
  EXPECT_EQ(choice.why, "the best of those that all 3 workers can compute");
  workers[0] = Zen3("w0");
  EXPECT_EQ(ChooseClass(workers, "").numerics_class, "cpu-f32");
  workers[1].offers[1].flops_per_second = 0;
  EXPECT_THAT(ChooseClass(workers, "").cost, HasSubstr("w1 would be better in cpu-bf16dot"));
}

TEST(ClassChoiceTest, WhereNoneIsCommonTheOneOfMost) {
  const ClassCandidate gpu = {"g0", {{"cuda-sm90", 0}}, ""};
  const ClassChoice choice = ChooseClass({gpu, Zen4("w0"), OnlyF32("w1")}, "");
  EXPECT_EQ(choice.numerics_class, "cpu-f32");
  EXPECT_EQ(choice.why, "the only one that most workers, 2 of 3, can compute");
  EXPECT_THAT(choice.cost, HasSubstr("g0 cannot compute it"));
  const ClassChoice even = ChooseClass({gpu, OnlyF32("w1")}, "");
  EXPECT_EQ(even.numerics_class, ChooseClass({OnlyF32("w1"), gpu}, "").numerics_class);
}

TEST(ClassChoiceTest, KeepsAClassThatAllStillCanCompute) {
  std::vector<ClassCandidate> workers = {Zen4("w0"), Zen4("w1")};
  EXPECT_EQ(ChooseClass(workers, "cpu-f32").numerics_class, "cpu-f32");
  EXPECT_THAT(ChooseClass(workers, "cpu-f32").why, HasSubstr("answers may have been begun in it"));
  EXPECT_THAT(ChooseClass(workers, "cpu-f32").cost, HasSubstr("1.6 times as quick"));
  workers.push_back(OnlyF32("w2"));
  EXPECT_EQ(ChooseClass(workers, "cpu-bf16dot").numerics_class, "cpu-f32") << "one cannot";
  workers.pop_back();
  workers[1].last = "cpu-f32";
  EXPECT_EQ(ChooseClass(workers, "").numerics_class, "cpu-f32") << "for a coordinator that returns";
  workers.push_back({"w9", {{"strange", 9e12}}, ""});
  workers.push_back({"w8", {{"strange", 9e12}}, ""});
  workers.push_back({"w7", {{"strange", 9e12}}, ""});
  EXPECT_EQ(ChooseClass(workers, "").numerics_class, "cpu-f32") << "who is new outvotes nobody";
  EXPECT_EQ(ChooseClass(workers, "").why,
            "1 worker computed in it last, and answers may have been begun in it");
  workers.resize(2);
  workers[0].last = workers[1].last = "gone";
  EXPECT_EQ(ChooseClass(workers, "gone").numerics_class, "cpu-bf16dot") << "nobody computes it";
}

TEST(ClassChoiceTest, TheOrderDecidesNothing) {
  std::vector<ClassCandidate> workers = {
      Zen4("w0"), Zen3("w1"), {"w2", {{"b", 1}, {"a", 1}}, "a"}, {"w3", {{"a", 1}, {"b", 1}}, "b"}};
  std::sort(workers.begin(), workers.end(),
            [](const auto& a, const auto& b) { return a.worker_id < b.worker_id; });
  const std::string expected = ChooseClass(workers, "").numerics_class;
  do {
    EXPECT_EQ(ChooseClass(workers, "").numerics_class, expected);
  } while (std::next_permutation(workers.begin(), workers.end(), [](const auto& a, const auto& b) {
    return a.worker_id < b.worker_id;
  }));
}

TEST(ClassChoiceTest, AManyNamedLineIsShort) {
  std::vector<ClassCandidate> workers;
  for (int i = 0; i < 20; ++i) workers.push_back(Zen4("w" + std::to_string(i)));
  workers.push_back(OnlyF32("x"));
  EXPECT_THAT(ChooseClass(workers, "").cost, HasSubstr("w7 and 12 more would be about 1.6 times"));
}

TEST(ClassChoiceTest, TheAdviceIsWhatAllCanComputeWhateverTheyDidLast) {
  std::vector<ClassCandidate> others = {Zen4("w0"), Zen4("w1")};
  for (ClassCandidate& one : others) one.last = "cpu-bf16dot";
  EXPECT_THAT(AdviceFor(OnlyF32("w2"), others, "cpu-bf16dot"),
              HasSubstr("start the coordinator with --numerics-class cpu-f32"));
}

TEST(ClassChoiceTest, NobodyIsThere) { EXPECT_EQ(ChooseClass({}, "kept").numerics_class, ""); }

}  // namespace
}  // namespace tutti::coordinator
