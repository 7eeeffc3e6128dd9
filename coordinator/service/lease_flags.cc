#include "coordinator/service/lease_flags.h"

#include <unistd.h>

#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/address.h"
#include "base/plain_name.h"
#include "coordinator/service/etcd_lease.h"
#include "coordinator/service/file_lease.h"
#include "coordinator/service/grpc_etcd.h"
#include "coordinator/service/leader_watch.h"
#include "program/flags.h"

namespace tutti::coordinator {
namespace {

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "coordinator";
}

absl::StatusOr<std::map<std::string, std::string>> ReadOthers(
    const std::vector<std::string>& given) {
  std::map<std::string, std::string> others;
  for (const std::string& one : given) {
    const size_t equals = one.find('=');
    const std::string name = one.substr(0, equals);
    if (equals == std::string::npos || !IsPlainName(name) || equals + 1 == one.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--other-coordinator ", one,
                       ": expected NAME=ADDRESS, of letters, digits and ._- the name"));
    }
    TUTTI_RETURN_IF_ERROR(Annotate(CheckAddress(one.substr(equals + 1), AddressUse::kDial),
                                   absl::StrCat("--other-coordinator ", name)));
    if (!others.emplace(name, one.substr(equals + 1)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--other-coordinator ", one, ": ", name, " is given twice"));
    }
  }
  if (others.size() <= kOtherCoordinatorsMax) return others;
  return absl::InvalidArgumentError(
      absl::StrCat("--other-coordinator: more than ", kOtherCoordinatorsMax, " are given"));
}

}  // namespace

void AddLeaseFlags(FlagSet* set, LeaseFlags* flags) {
  set->Add({
      {.names = "--standby-lock",
       .variable = &flags->lock_file,
       .help = "Lead only with the lock on this file, and stand by until it is free: for "
               "coordinators of one machine. Covers the death of the leader's process, not a "
               "leader that is stopped or hangs"},
      {.names = "--etcd",
       .variable = &flags->etcd,
       .help = "Lead only with a lease of this etcd (version 3; host:port, several with commas), "
               "and stand by until there is none: covers leaders that die, are stopped or cut off",
       .check = IsAddress(),
       .list = FlagList::kCommas,
       .excludes = {"--standby-lock"}},
      {.names = "--etcd-prefix",
       .variable = &flags->etcd_prefix,
       .help = "Of the keys in etcd, one for each cluster; unset: tutti/ and the cluster's id"},
      {.names = "--etcd-lease",
       .variable = &flags->etcd_seconds,
       .help = "Seconds of the lease: a leader that is stopped or cut off is replaced after them",
       .check = IntegerIn(kEtcdLeaseSecondsMin, kEtcdLeaseSecondsMax),
       .show_default = true},
      {.names = "--etcd-ca",
       .variable = &flags->etcd_tls.authority,
       .help = "PEM authority that signed etcd's certificate; unset: no TLS"},
      {.names = "--etcd-cert",
       .variable = &flags->etcd_tls.certificate,
       .help = "PEM certificate to show etcd"},
      {.names = "--etcd-key",
       .variable = &flags->etcd_tls.key,
       .help = "PEM key of that certificate"},
      {.names = "--coordinator-name",
       .variable = &flags->name,
       .help = "What this coordinator is called by those that stand by; unset: the host's name"},
      {.names = "--other-coordinator",
       .variable = &flags->others,
       .help = "NAME=ADDRESS: the public address of another coordinator; may be repeated. Where it "
               "leads and its port refuses connections, its lease in etcd is ended at once",
       .list = FlagList::kRepeated},
  });
}

absl::StatusOr<std::shared_ptr<LeaderLease>> MakeLease(const LeaseFlags& flags,
                                                       const std::string& cluster_id,
                                                       const Clock* clock) {
  const std::string name = flags.name.empty() ? HostName() : flags.name;
  if (!IsPlainName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--coordinator-name ", name, ": does not match [A-Za-z0-9._-]{1,128}"));
  }
  TUTTI_ASSIGN_OR_RETURN(auto others, ReadOthers(flags.others));
  if (!flags.lock_file.empty()) return std::make_shared<FileLease>(flags.lock_file, name);
  if (flags.etcd.empty()) {
    if (others.empty() && !flags.etcd_tls.any()) return nullptr;
    return absl::InvalidArgumentError(
        "--other-coordinator and the files of --etcd-ca are for --etcd, which is missing");
  }
  std::string prefix = flags.etcd_prefix;
  if (prefix.empty()) prefix = cluster_id.empty() ? "tutti" : absl::StrCat("tutti/", cluster_id);
  TUTTI_ASSIGN_OR_RETURN(
      auto etcd,
      GrpcEtcd::Create({.addresses = flags.etcd, .prefix = prefix, .tls = flags.etcd_tls}));
  return std::make_shared<EtcdLease>(
      EtcdLease::Options{.name = name,
                         .about = absl::StrCat("the lease ", prefix, " in etcd at ",
                                               absl::StrJoin(flags.etcd, ",")),
                         .seconds = flags.etcd_seconds},
      std::move(etcd), std::make_unique<LeaderWatch>(std::move(others)), clock);
}

}  // namespace tutti::coordinator
