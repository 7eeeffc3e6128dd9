#include "model/edge_chunks.h"

#include "absl/cleanup/cleanup.h"

namespace tutti::model {

absl::Status EdgeChunks::With(int32_t file, int64_t chunk,
                              absl::FunctionRef<absl::Status(std::vector<std::byte>*)> read,
                              absl::FunctionRef<void(std::span<const std::byte>)> use) {
  Entry* const entry = Acquire(file, chunk);
  const absl::Cleanup release = [&] { Release(entry); };
  {
    const MutexLock lock(&entry->reading);
    if (!entry->is_read) {
      TUTTI_RETURN_IF_ERROR(read(&entry->bytes));
      entry->is_read = true;
    }
  }
  use(entry->bytes);
  return absl::OkStatus();
}

EdgeChunks::Entry* EdgeChunks::Acquire(int32_t file, int64_t chunk) {
  const MutexLock lock(&mutex_);
  Entry* oldest = nullptr;
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (entry->file == file && entry->chunk == chunk) {
      entry->used = ++uses_;
      ++entry->users;
      return entry.get();
    }
    if (entry->users == 0 && (oldest == nullptr || entry->used < oldest->used)) {
      oldest = entry.get();
    }
  }
  if (entries_.size() < kept_ || oldest == nullptr) {
    oldest = entries_.emplace_back(std::make_unique<Entry>()).get();
  }
  {
    const MutexLock reading(&oldest->reading);
    oldest->is_read = false;
  }
  oldest->file = file;
  oldest->chunk = chunk;
  oldest->used = ++uses_;
  oldest->users = 1;
  return oldest;
}

void EdgeChunks::Release(Entry* entry) {
  const MutexLock lock(&mutex_);
  --entry->users;
}

}  // namespace tutti::model
