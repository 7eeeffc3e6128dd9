// A backend that goes from class to class computes as one that was made for the class.
#include "kernels/several_classes.h"

#include <map>

#include "kernels/kernels_testing.h"
#include "kernels/tunable.h"

namespace tutti::kernels {
namespace {

Matrix ProductOf(Backend& backend, const Weight& weight, Matrix& in) {
  Matrix out(in.rows(), weight.out_features());
  backend.MatMul(in.view(), weight, out.view());
  return out;
}

TEST(SeveralClassesTest, EachHasItsOwnBitsOnTheSameWeights) {
  const auto backend = *CreateBackend("cpu", {.num_threads = 2});
  auto* const several = backend->several_classes();
  ASSERT_NE(several, nullptr);
  const std::vector<std::string> classes = several->numerics_classes();
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_EQ(classes.front(), backend->numerics_class());
  Matrix w = Matrix(128, 300, DType::kBF16).Fill(1), in = Matrix(9, 300).Fill(2);
  const auto packed = *backend->Pack({{w.view()}, {}, "w"});
  for (const std::string& one : {classes[1], classes[0], classes[2], classes[1], classes[0]}) {
    several->ComputeIn(one);
    EXPECT_EQ(backend->numerics_class(), one);
    const auto made = *CreateBackend("cpu", {.num_threads = 1, .numerics_class = one});
    const auto own = *made->Pack({{w.view()}, {}, "w"});
    Matrix expected = ProductOf(*made, *own, in), found = ProductOf(*backend, *packed, in);
    for (int64_t r = 0; r < in.rows(); ++r) EXPECT_TRUE(SameBits(expected, r, found, r)) << one;
  }
}

TEST(SeveralClassesTest, ChoicesMadeByMeasurementAreKept) {
  const auto backend = *CreateBackend("cpu", {.num_threads = 1});
  auto* const tunable = backend->tunable();
  auto* const several = backend->several_classes();
  const auto find = [&](std::string_view name) {
    size_t k = 0;
    while (k < tunable->knobs().size() && tunable->knobs()[k].name != name) ++k;
    return k;
  };
  // The class that it begins in has its choices already, whichever that is on this processor.
  const std::vector<std::string> classes = several->numerics_classes();
  ASSERT_EQ(classes.size(), 3u);
  ASSERT_EQ(classes.front(), backend->numerics_class());
  several->ComputeIn(classes[1]);
  tunable->SetKnob(find("block"), 96);
  several->ComputeIn(classes[2]);
  EXPECT_EQ(tunable->knob_value(find("block")), 96);
}

// The f32-* are of one set only, and ahead-2 takes other values in the other.
TEST(SeveralClassesTest, EachClassKeepsItsChoices) {
  const auto backend = *CreateBackend("cpu", {.num_threads = 1});
  auto* const tunable = backend->tunable();
  auto* const several = backend->several_classes();
  const std::vector<std::string> classes = several->numerics_classes();
  ASSERT_EQ(classes.size(), 3u);
  // The values by name, those of the class that it computes in.
  const auto values = [&] {
    std::map<std::string, int64_t> all;
    for (size_t k = 0; k < tunable->knobs().size(); ++k) {
      all.emplace(tunable->knobs()[k].name, tunable->knob_value(k));
    }
    return all;
  };
  const auto set_all = [&](bool usual) {
    for (size_t k = 0; k < tunable->knobs().size(); ++k) {
      const Knob& knob = tunable->knobs()[k];
      const bool last = knob.values.back() != knob.usual;
      tunable->SetKnob(k, usual ? knob.usual : last ? knob.values.back() : knob.values.front());
    }
    return values();
  };
  const auto best = set_all(false);
  for (const char* name : {"f32-1", "f32-2", "f32-7"}) {
    EXPECT_TRUE(!best.contains(name) || best.at(name) == 1) << name;
  }
  several->ComputeIn(classes[1]);
  several->ComputeIn(classes[0]);
  EXPECT_EQ(values(), best) << "there and back";
  several->ComputeIn(classes[1]);
  const auto other = set_all(true);
  several->ComputeIn(classes[0]);
  EXPECT_EQ(values(), best) << "those of the other were set";
  set_all(true);
  several->ComputeIn(classes[1]);
  EXPECT_EQ(set_all(false).size(), other.size());
  const auto changed = values();
  several->ComputeIn(classes[0]);
  several->ComputeIn(classes[1]);
  EXPECT_EQ(values(), changed);
}

}  // namespace
}  // namespace tutti::kernels
