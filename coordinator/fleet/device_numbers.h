// The numbers by which --max-memory and HuggingFace's device maps speak of workers.
//
// Numbers follow the natural order of the workers' ids (w2 before w10) until the first pipeline
// forms, so that the order of connecting does not matter. From then on a number stays with its
// worker, also while that is away, and newcomers get the next ones
// (docs/decisions/0014-choosing-a-layout.md).
//
// Thread: the engine's.
#pragma once

#include <string>
#include <vector>

namespace tutti::coordinator {

class DeviceNumbers {
 public:
  // Keeps its number if it had one; gets none beyond kDeviceNumbersMax.
  void Join(const std::string& worker_id);
  // Forgotten, unless numbers are fixed.
  void Leave(const std::string& worker_id);
  void Fix() { fixed_ = true; }
  bool fixed() const { return fixed_; }
  // Names by number.
  const std::vector<std::string>& names() const { return names_; }
  // names().size() for a worker that has none.
  size_t NumberOf(const std::string& worker_id) const;

 private:
  std::vector<std::string> names_;
  bool fixed_ = false;
};

}  // namespace tutti::coordinator
