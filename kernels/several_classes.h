// Backends that can compute in more than one numerics class, with the same packed weights.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::kernels {

// Implemented by such backends (Backend::several_classes); others compute in numerics_class() only.
//
// Thread: the one that calls the backend's operators, between two of them.
class SeveralClasses {
 public:
  virtual ~SeveralClasses() = default;

  // The best first, which is numerics_class() of a new backend. One, where its options name a class
  // or an instruction set.
  virtual std::vector<std::string> numerics_classes() const = 0;
  // From now on results are those of this class. What caches hold of another one must not be read.
  // There may be other knobs (tunable.h) then: each class keeps the values of its own, which are at
  // first, where it has them, those of the same name in the class before.
  // REQUIRES: one of numerics_classes()
  virtual void ComputeIn(std::string_view numerics_class) = 0;
};

}  // namespace tutti::kernels
