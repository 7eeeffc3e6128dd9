#include "kernels/cuda/launch_queue.h"

namespace tutti::kernels::cuda {

void LaunchQueue::Start(const KernelLaunch& launch) {
  KernelLaunch kept = launch;
  if (!early_) kept.early = 0;
  recorded_.Append(kept);
  if (recorded_.size() < list_launches_) return;
  Flush();
  list_launches_ = kListLaunches;
}

void LaunchQueue::Flush() {
  list_launches_ = kFirstListLaunches;
  if (recorded_.size() == 0) return;
  graphs_.Start(&recorded_);
  recorded_.Clear();
}

void LaunchQueue::EndStep() {
  Flush();
  ++steps_;
}

void LaunchQueue::UploadAhead(void* to, const void* from, int64_t bytes) {
  device_->Upload(to, bytes, from, bytes, bytes, 1);
}

void LaunchQueue::Free(void* data) {
  Flush();
  device_->Free(data);
}

void LaunchQueue::Upload(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                         int64_t width, int64_t rows) {
  Flush();
  device_->Upload(to, to_stride, from, from_stride, width, rows);
}

void LaunchQueue::Download(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                           int64_t width, int64_t rows) {
  Flush();
  device_->Download(to, to_stride, from, from_stride, width, rows);
}

void LaunchQueue::Zero(void* data, int64_t bytes) {
  Flush();
  device_->Zero(data, bytes);
}

bool LaunchQueue::Idle() {
  Flush();
  return device_->Idle();
}

uint64_t LaunchQueue::Mark() {
  Flush();
  return device_->Mark();
}

Stream LaunchQueue::stream() {
  Flush();
  return device_->stream();
}

}  // namespace tutti::kernels::cuda
