// The bits that a numerics class stands for, in this build.
//
// Builds that compute the same bits serve together, others must not. So the revision is a part of
// the class's name wherever processes compare classes: in a worker's hello, in a pipeline's class,
// in the tokens of answers that go on elsewhere (docs/decisions/0046-numerics-revision.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

// Grows by one with every change of a bit of any answer, in any class. A test compares the bits of
// the golden checkpoints with those noted for it (worker/numerics_revision_test.cc) and says what
// to do.
inline constexpr uint32_t kNumericsRevision = 1;

// "cpu-f32" of revision 1, "cpu-f32.2" of revision 2.
inline std::string ClassAtRevision(std::string_view numerics_class,
                                   uint32_t revision = kNumericsRevision) {
  std::string name(numerics_class);
  if (revision > 1) name += "." + std::to_string(revision);
  return name;
}

// The name that processes tell each other for a name as an operator writes it, with a revision or
// without: without one it is this build's.
inline std::string ToldClass(std::string_view name, uint32_t revision = kNumericsRevision) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
  const bool has_revision = digits > 0 && digits < name.size() && name[digits - 1] == '.';
  return name.empty() || has_revision ? std::string(name) : ClassAtRevision(name, revision);
}

// The name that this build's backends have for such a class, without a revision. A name at
// another revision stays as it is: no backend has it.
inline std::string BackendClass(std::string_view name, uint32_t revision = kNumericsRevision) {
  const std::string own = ClassAtRevision("", revision);
  if (!own.empty() && name.ends_with(own)) name.remove_suffix(own.size());
  return std::string(name);
}

}  // namespace tutti
