#include "kernels/cuda/lost_device.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "program/exit_code.h"

namespace tutti::kernels::cuda {

std::string LostDeviceText(int32_t index, std::string_view operation, std::string_view error) {
  std::string text = absl::StrCat(
      "GPU ", index, " is lost: ", std::string(operation), ": ", std::string(error),
      "; this worker ends, and streams go on with others. Start it again; if the GPU is lost "
      "again, `nvidia-smi` and the kernel's log (Xid) say what is wrong with it, and --device "
      "takes another");
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

void EndForLostDevice(int32_t index, std::string_view operation, std::string_view error,
                      LostDeviceHandler handler) {
  static std::atomic<bool> ending{false};
  while (ending.exchange(true)) pause();
  const std::string text = LostDeviceText(index, operation, error);
  if (handler != nullptr) {
    handler(text.c_str());
  } else {
    const std::string line = text + "\n";
    (void)!write(STDERR_FILENO, line.data(), line.size());
  }
  std::_Exit(kExitDeviceLost);
}

}  // namespace tutti::kernels::cuda
