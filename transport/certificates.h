// The PEM files of a process, looked at before they are used and read again when they change.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/status.h"

namespace tutti::transport {

// PEM files; all empty: no TLS.
struct TlsFiles {
  std::string certificate;  // of this process, with its chain
  std::string key;
  std::string authority;  // must have signed the peer's certificate

  bool any() const { return !certificate.empty() || !key.empty() || !authority.empty(); }
};

// Thread: any.
class Certificates {
 public:
  struct Texts {
    std::string certificate, key, authority;
    std::vector<std::string> uris;  // of the certificate's subject alternative names
  };

  // INVALID_ARGUMENT when a file is not given (the authority only if it is needed) or is no PEM
  // file, NOT_FOUND when it cannot be read, FAILED_PRECONDITION when the certificate has expired or
  // is not valid yet, with its dates, or when the key is not the certificate's. All name the file.
  static absl::StatusOr<std::shared_ptr<Certificates>> Open(const TlsFiles& files,
                                                            bool needs_authority);

  // The files as they are. Where they have changed and are not good (half of them replaced, for
  // example) the former texts, and the log says why. Two equal pointers are equal texts.
  std::shared_ptr<const Texts> Current();

  // OK when the certificate has `uri` among its names; FAILED_PRECONDITION lists those it has.
  absl::Status CheckUri(const std::string& uri);

 private:
  // The mark that tells that a file has changed; all zeros where there is none.
  struct Stamp {
    int64_t inode = 0, size = 0, seconds = 0, nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::array<Stamp, 3>;

  Certificates(TlsFiles files, Stamps stamps, std::shared_ptr<const Texts> texts)
      : files_(std::move(files)), stamps_(stamps), texts_(std::move(texts)) {}

  static Stamps StampsOf(const TlsFiles& files);

  const TlsFiles files_;
  Mutex mutex_;
  Stamps stamps_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Texts> texts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::transport
