// The rules of who may call what: the roles of callers, the names that certificates prove, and for
// every method of every service the roles that may call it.
//
// A certificate proves identities by URIs among its subject alternative names:
//   tutti://client/NAME    tutti://gateway/NAME    tutti://worker/NAME
//   tutti://operator/NAME  tutti://coordinator
// NAME matches [A-Za-z0-9._-]{1,128}. One certificate may carry several. A certificate without any
// may call nothing.
//
// Thread: any; pure.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace google::protobuf {
class FileDescriptor;
}  // namespace google::protobuf

namespace tutti::transport {

enum class Role : uint8_t {
  kClient,       // asks for itself
  kGateway,      // asks for others: names tenants, gives requests priority
  kWorker,       // computes: dials the coordinator and other workers
  kCoordinator,  // is dialled by workers
  kOperator,     // sees status and caches
};
inline constexpr Role kAllRoles[] = {Role::kClient, Role::kGateway, Role::kWorker,
                                     Role::kCoordinator, Role::kOperator};

// "client", as in a URI.
std::string_view RoleName(Role role);

class RoleSet {
 public:
  constexpr RoleSet() = default;
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) Add(role);
  }
  constexpr void Add(Role role) { bits_ |= Bit(role); }
  constexpr bool Has(Role role) const { return (bits_ & Bit(role)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool Meets(RoleSet other) const { return (bits_ & other.bits_) != 0; }

 private:
  static constexpr uint32_t Bit(Role role) { return uint32_t{1} << static_cast<uint32_t>(role); }
  uint32_t bits_ = 0;
};

struct Identity {
  Role role = Role::kClient;
  std::string name;  // empty of a coordinator

  bool operator==(const Identity&) const = default;
};

// Nothing for a URI of another scheme, an unknown role or a name that is none.
std::optional<Identity> ParseIdentity(std::string_view uri);
std::string IdentityUri(const Identity& identity);

// The other end of a connection, as far as it has proved who it is.
struct Caller {
  bool has_certificate = false;
  std::vector<Identity> identities;  // of its certificate
  RoleSet roles;  // of these, or those that the port gives to callers without a certificate

  // The name under which it has `role`; null: it has proved none.
  const std::string* NameAs(Role role) const;
};

struct MethodRoles {
  std::string_view path;  // "/tutti.v1.Inference/Generate"
  RoleSet roles;
};

// Every method that a process of ours may serve, those of gRPC's own services included.
std::span<const MethodRoles> MethodTable();
// Null: no such method.
const RoleSet* RolesOfMethod(std::string_view path);

// OK, or PERMISSION_DENIED; UNIMPLEMENTED for a method that the table does not have. The text is
// the same for every method and caller.
absl::Status CheckCall(std::string_view path, RoleSet roles);

// FAILED_PRECONDITION names a method of these files' services that the table does not have: a
// process that serves it must not start.
absl::Status CheckMethodTable(std::span<const google::protobuf::FileDescriptor* const> files);
// The same for the files of proto/.
absl::Status CheckMethodTable();

}  // namespace tutti::transport
