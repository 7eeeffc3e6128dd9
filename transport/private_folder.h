// Folders that only this user can enter, where Unix sockets need no other proof of who connects;
// and the addresses in them that the programs of one user find by themselves.
//
// Thread: any.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::transport {

// OK when `path` is a folder, and no link to one, that belongs to this user and that nobody else
// can enter, read or write (mode 0700). FAILED_PRECONDITION says what is wrong and its remedy.
absl::Status CheckPrivateFolder(const std::string& path);

// The same, and makes the folder where there is none; its parent must exist.
absl::Status MakePrivateFolder(const std::string& path);

// The folder of "unix:/path/socket"; "." for one without; empty for other addresses.
std::string SocketFolder(const std::string& address);

// $XDG_RUNTIME_DIR/tutti, or /tmp/tutti-UID where that is not there as a private folder and could
// not be made. Not made here.
std::string RuntimeFolder();

// The socket on which the coordinator whose public address is `address` takes its operator's calls
// unless it is told another: in RuntimeFolder, named by the address. Addresses of this machine that
// differ in the word for it (localhost, 127.0.0.1, 0.0.0.0) have the same.
std::string OperatorAddress(const std::string& address);

// The same for a client: of the folders where the coordinator may have put its socket the one that
// has it. NOT_FOUND where there is none, or `address` is another machine's.
absl::StatusOr<std::string> FindOperatorAddress(const std::string& address);

// A socket of a process that still runs: UNAVAILABLE. One that was left behind is removed. OK for
// addresses other than "unix:…".
absl::Status ClaimSocket(const std::string& address);

}  // namespace tutti::transport
