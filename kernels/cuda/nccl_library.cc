#include "kernels/cuda/nccl_library.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::kernels::cuda {
namespace {

// NCCL's C interface, as far as it is called. Enumerations are ints.
struct UniqueId {
  NcclGroupId bytes;
};
using Communicator = void*;
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
constexpr int kUint8 = 1;
constexpr int kFloat32 = 7;

struct NcclFunctions {
  int (*get_version)(int*);
  const char* (*get_error_string)(int);
  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(Communicator*, int, UniqueId, int);
  int (*abort)(Communicator);
  int (*get_async_error)(Communicator, int*);
  int (*all_gather)(const void*, void*, size_t, int, Communicator, void*);
  int (*send)(const void*, size_t, int, int, Communicator, void*);
  int (*receive)(void*, size_t, int, int, Communicator, void*);
  int (*group_start)();
  int (*group_end)();
};

class Library {
 public:
  // Never closed: NCCL has threads of its own.
  Library(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  template <class Function>
  absl::Status Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (*function != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(path_, " has no function ", name, ": NCCL ",
                                                      NcclVersionName(kNcclVersionMin),
                                                      " or newer is needed"));
  }

 private:
  void* const handle_;
  const std::string path_;
};

absl::StatusOr<NcclFunctions> FindNcclFunctions(const Library& library) {
  NcclFunctions f = {};
  TUTTI_RETURN_IF_ERROR(library.Find("ncclGetVersion", &f.get_version));
  TUTTI_RETURN_IF_ERROR(library.Find("ncclGetErrorString", &f.get_error_string));
  TUTTI_RETURN_IF_ERROR(library.Find("ncclGetUniqueId", &f.get_unique_id));
  TUTTI_RETURN_IF_ERROR(library.Find("ncclCommInitRank", &f.init_rank));
  TUTTI_RETURN_IF_ERROR(library.Find("ncclCommAbort", &f.abort));
  TUTTI_RETURN_IF_ERROR(library.Find("ncclCommGetAsyncError", &f.get_async_error));
  TUTTI_RETURN_IF_ERROR(library.Find("ncclAllGather", &f.all_gather));
  TUTTI_RETURN_IF_ERROR(library.Find("ncclSend", &f.send));
  TUTTI_RETURN_IF_ERROR(library.Find("ncclRecv", &f.receive));
  TUTTI_RETURN_IF_ERROR(library.Find("ncclGroupStart", &f.group_start));
  TUTTI_RETURN_IF_ERROR(library.Find("ncclGroupEnd", &f.group_end));
  return f;
}

absl::Status Said(const NcclFunctions& nccl, int result, const char* operation) {
  if (result == kSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("NCCL, ", operation, ": ", nccl.get_error_string(result), " (", result, ")"));
}

class LibraryGroup : public NcclGroup {
 public:
  LibraryGroup(const NcclFunctions& nccl, Communicator communicator)
      : nccl_(nccl), communicator_(communicator) {}
  ~LibraryGroup() override { Abort(); }

  absl::Status AllGather(const float* from, float* to, int64_t count, Stream stream) override {
    return Said(
        nccl_,
        nccl_.all_gather(from, to, static_cast<size_t>(count), kFloat32, communicator_, stream),
        "all-gather");
  }
  absl::Status Begin() override { return Said(nccl_, nccl_.group_start(), "group start"); }
  absl::Status Send(const void* from, int64_t bytes, int peer, Stream stream) override {
    return Said(nccl_,
                nccl_.send(from, static_cast<size_t>(bytes), kUint8, peer, communicator_, stream),
                "send");
  }
  absl::Status Receive(void* to, int64_t bytes, int peer, Stream stream) override {
    return Said(nccl_,
                nccl_.receive(to, static_cast<size_t>(bytes), kUint8, peer, communicator_, stream),
                "receive");
  }
  absl::Status End() override { return Said(nccl_, nccl_.group_end(), "group end"); }

  absl::Status Health() override {
    int background = kSuccess;
    TUTTI_RETURN_IF_ERROR(
        Said(nccl_, nccl_.get_async_error(communicator_, &background), "asking for errors"));
    return background == kInProgress ? absl::OkStatus()
                                     : Said(nccl_, background, "in the background");
  }

  // An error of giving up has no receiver, and nothing else can be done.
  void Abort() override {
    if (!aborted_.exchange(true)) nccl_.abort(communicator_);
  }

 private:
  const NcclFunctions nccl_;
  const Communicator communicator_;
  std::atomic<bool> aborted_{false};
};

class LibraryNccl : public Nccl {
 public:
  LibraryNccl(const NcclFunctions& functions, int version, UseDeviceFunction use_device)
      : nccl_(functions), version_(version), use_device_(use_device) {}

  int version() const override { return version_; }

  absl::StatusOr<NcclGroupId> NewGroup() override {
    UniqueId id = {};
    TUTTI_RETURN_IF_ERROR(Said(nccl_, nccl_.get_unique_id(&id), "founding a group"));
    return id.bytes;
  }

  absl::StatusOr<std::unique_ptr<NcclGroup>> Join(const NcclGroupId& id, int ranks, int rank,
                                                  int device_index) override {
    if (const int error = use_device_(device_index); error != 0) {
      return absl::InternalError(absl::StrCat("GPU ", device_index, ": CUDA error ", error));
    }
    Communicator communicator = nullptr;
    TUTTI_RETURN_IF_ERROR(
        Said(nccl_, nccl_.init_rank(&communicator, ranks, UniqueId{id}, rank), "joining a group"));
    return std::make_unique<LibraryGroup>(nccl_, communicator);
  }

 private:
  const NcclFunctions nccl_;
  const int version_;
  const UseDeviceFunction use_device_;
};

}  // namespace

std::string NcclVersionName(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string NcclLibraryPath() {
  const char* const set = std::getenv("TUTTI_NCCL_LIBRARY");
  return set != nullptr && *set != '\0' ? set : "libnccl.so.2";
}

absl::StatusOr<std::shared_ptr<Nccl>> OpenNcclLibrary(const std::string& path,
                                                      UseDeviceFunction use_device) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::UnavailableError(absl::StrCat("NCCL cannot be opened: ", dlerror(),
                                               "; TUTTI_NCCL_LIBRARY may name the file"));
  }
  TUTTI_ASSIGN_OR_RETURN(const NcclFunctions functions, FindNcclFunctions(Library(handle, path)));
  int version = 0;
  TUTTI_RETURN_IF_ERROR(Said(functions, functions.get_version(&version), "asking its version"));
  if (version < kNcclVersionMin) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is NCCL ", NcclVersionName(version),
                                                      "; ", NcclVersionName(kNcclVersionMin),
                                                      " or newer is needed"));
  }
  return std::make_shared<LibraryNccl>(functions, version, use_device);
}

}  // namespace tutti::kernels::cuda
