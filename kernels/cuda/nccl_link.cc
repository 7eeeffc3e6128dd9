#include "kernels/cuda/nccl_link.h"

#include <utility>

#include "base/check.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/limits.h"

namespace tutti::kernels::cuda {
namespace {

constexpr int kReceiver = 0;
constexpr int kSender = 1;

// One operation: `bytes` from the sender to the receiver.
absl::Status Transfer(NcclGroup* group, int member, void* memory, int64_t bytes, Stream stream) {
  TUTTI_RETURN_IF_ERROR(group->Begin());
  TUTTI_RETURN_IF_ERROR(member == kSender ? group->Send(memory, bytes, kReceiver, stream)
                                          : group->Receive(memory, bytes, kSender, stream));
  return group->End();
}

// NCCL connects the two when a transfer first needs it, and then waits: here where waiting is
// allowed. Of a small and of a large size, which may take different ways.
absl::Status ConnectMember(NcclGroup* group, int members, int member, Runtime* runtime) {
  CHECK(members == 2);
  WorkSpace memory(runtime);
  TUTTI_RETURN_IF_ERROR(memory.Reserve(kLinkConnectBytes));
  auto* const data = memory.Of<char>(kLinkConnectBytes);
  for (const int64_t bytes : {int64_t{4}, kLinkConnectBytes}) {
    TUTTI_RETURN_IF_ERROR(Transfer(group, member, data, bytes, runtime->stream()));
  }
  char last = 0;
  runtime->Download(&last, 1, data, 1, 1, 1);  // waits
  return group->Health();
}

}  // namespace

NcclLink::NcclLink(NcclOptions options) : membership_(std::move(options), ConnectMember) {}

void NcclLink::Follow() {
  if (group_number_ == membership_.group_number()) return;
  group_number_ = membership_.group_number();
  marks_.clear();
  done_ = 0;
}

absl::Status NcclLink::Send(const std::byte* from, int64_t bytes) {
  CHECK(membership_.member() == kSender && bytes > 0);
  return Queue("sending rows", [&](NcclGroup* group) {
    return Transfer(group, kSender, const_cast<std::byte*>(from), bytes,
                    membership_.runtime()->stream());
  });
}

absl::Status NcclLink::Receive(std::byte* to, int64_t bytes) {
  CHECK(membership_.member() == kReceiver && bytes > 0);
  return Queue("receiving rows", [&](NcclGroup* group) {
    return Transfer(group, kReceiver, to, bytes, membership_.runtime()->stream());
  });
}

absl::Status NcclLink::Queue(const char* name,
                             const std::function<absl::Status(NcclGroup*)>& transfer) {
  Follow();
  TUTTI_RETURN_IF_ERROR(membership_.Call(name, transfer));
  marks_.push_back(membership_.runtime()->Mark());
  return absl::OkStatus();
}

absl::StatusOr<int64_t> NcclLink::Done() {
  Follow();
  TUTTI_RETURN_IF_ERROR(membership_.Health());
  while (!marks_.empty() && membership_.runtime()->Passed(marks_.front())) {
    marks_.pop_front();
    ++done_;
  }
  return done_;
}

}  // namespace tutti::kernels::cuda
