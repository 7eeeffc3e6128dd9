// A backend that goes from class to class computes as one that was made for the class.
#include "kernels/several_classes.h"

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
  auto* const several = dynamic_cast<SeveralClasses*>(backend.get());
  ASSERT_NE(several, nullptr);
  const std::vector<std::string> classes = several->numerics_classes();
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes.front(), backend->numerics_class());
  Matrix w = Matrix(128, 300, DType::kBF16).Fill(1), in = Matrix(9, 300).Fill(2);
  const auto packed = *backend->Pack({{w.view()}, {}, "w"});
  for (const std::string& one : {classes[1], classes[0], classes[1], classes[0]}) {
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
  auto* const tunable = dynamic_cast<Tunable*>(backend.get());
  auto* const several = dynamic_cast<SeveralClasses*>(backend.get());
  const auto find = [&](std::string_view name) {
    size_t k = 0;
    while (k < tunable->knobs().size() && tunable->knobs()[k].name != name) ++k;
    return k;
  };
  tunable->SetKnob(find("block"), 96);
  several->ComputeIn(several->numerics_classes()[1]);
  EXPECT_EQ(tunable->knob_value(find("block")), 96);
}

}  // namespace
}  // namespace tutti::kernels
