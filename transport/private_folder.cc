#include "transport/private_folder.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tutti::transport {
namespace {

constexpr absl::string_view kUnix = "unix:";

std::string FolderWithoutRuntimeDir() { return absl::StrCat("/tmp/tutti-", geteuid()); }

// Host and port; the host is empty for this machine by any of its usual names.
struct HostPort {
  std::string host;
  std::string port;
};

HostPort Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {address, ""};
  HostPort parts = {address.substr(0, colon), address.substr(colon + 1)};
  for (const char* own : {"localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::]"}) {
    if (parts.host == own) parts.host.clear();
  }
  return parts;
}

// A name for a socket: an address has characters that a file's name should not.
std::string SocketName(const std::string& address) {
  if (absl::StartsWith(address, kUnix)) {
    // FNV-1a: a path may be longer than a socket's name can be.
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : address) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return absl::StrFormat("operator-%016x.sock", hash);
  }
  const HostPort parts = Split(address);
  std::string name =
      absl::StrCat("operator-", parts.host.empty() ? "" : parts.host + "-", parts.port, ".sock");
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  }
  return name;
}

bool IsSocket(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode);
}

}  // namespace

absl::Status CheckPrivateFolder(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  if (!S_ISDIR(found.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no folder (a link to one will not do)"));
  }
  if (found.st_uid != geteuid()) {
    return absl::FailedPreconditionError(absl::StrCat(path, " belongs to user ", found.st_uid,
                                                      ", this process runs as ", geteuid()));
  }
  if ((found.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s can be entered by others (mode %04o); chmod 0700 it", path,
                        static_cast<unsigned>(found.st_mode & 07777)));
  }
  return absl::OkStatus();
}

absl::Status MakePrivateFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the folder ", path, ": ", std::strerror(errno)));
  }
  return CheckPrivateFolder(path);
}

std::string SocketFolder(const std::string& address) {
  if (!absl::StartsWith(address, kUnix)) return "";
  const std::string path = address.substr(kUnix.size());
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string RuntimeFolder() {
  const char* base = std::getenv("XDG_RUNTIME_DIR");
  if (base == nullptr) return FolderWithoutRuntimeDir();
  const std::string folder = absl::StrCat(base, "/tutti");
  // A service is given one in /run, where it could make none.
  if (CheckPrivateFolder(folder).ok() || access(base, W_OK | X_OK) == 0) return folder;
  return FolderWithoutRuntimeDir();
}

std::string OperatorAddress(const std::string& address) {
  return absl::StrCat(kUnix, RuntimeFolder(), "/", SocketName(address));
}

absl::StatusOr<std::string> FindOperatorAddress(const std::string& address) {
  const std::string name = SocketName(address);
  for (const std::string& folder : {RuntimeFolder(), FolderWithoutRuntimeDir()}) {
    // A socket in a folder of somebody else's would be somebody else's service.
    if (CheckPrivateFolder(folder).ok() && IsSocket(absl::StrCat(folder, "/", name))) {
      return absl::StrCat(kUnix, folder, "/", name);
    }
  }
  return absl::NotFoundError(absl::StrCat("no service at ", address,
                                          " has an operator's socket on this machine (",
                                          RuntimeFolder(), "/", name, ")"));
}

absl::Status ClaimSocket(const std::string& address) {
  if (!absl::StartsWith(address, kUnix)) return absl::OkStatus();
  const std::string path = address.substr(kUnix.size());
  if (!IsSocket(path)) return absl::OkStatus();
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is too long for a socket: at most ",
                                                   sizeof(name.sun_path) - 1, " bytes"));
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_fd < 0) return absl::OkStatus();
  const bool answers =
      connect(socket_fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0 ||
      errno == EAGAIN;
  close(socket_fd);
  if (answers) {
    return absl::UnavailableError(absl::StrCat(address, " is in use by another process"));
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace tutti::transport
