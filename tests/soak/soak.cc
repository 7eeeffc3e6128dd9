// tutti-soak: what innocent clients notice while others attack. Prints one JSON object a phase.
//
// The service runs already; tests/e2e/soak.py starts one and watches its processes.

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "nlohmann/json.hpp"
#include "program/flags.h"
#include "tests/soak/attackers.h"
#include "tests/soak/innocents.h"

namespace tutti::tests {
namespace {

struct Flags {
  std::string address = "127.0.0.1:50051";
  std::string peers;
  std::string attacks = "all";
  int seconds = 20;
  int calm_seconds = 0;
  int innocents = 4;
  std::string role = "both";
};

constexpr char kFooter[] = R"(Example:
  tutti-soak --address 127.0.0.1:50051 --peers unix:/run/user/0/tutti-x/w0.sock --seconds 60

Three phases of the same length: alone, beside as many ordinary clients as there are attackers, and
beside the attackers. Exit status: 0 when no innocent failed and no answer changed, else 1.)";

void AddFlags(FlagSet* set, Flags* flags) {
  set->AddFooter(kFooter);
  set->Add({
      {.names = "--address",
       .variable = &flags->address,
       .help = "Public port of the service",
       .show_default = true},
      {.names = "--peers", .variable = &flags->peers, .help = "Ports of workers, with commas"},
      {.names = "--attacks",
       .variable = &flags->attacks,
       .help = "all, or names with commas: wide, long, heavy, nested, unread, half, flood",
       .show_default = true},
      {.names = "--seconds",
       .variable = &flags->seconds,
       .help = "Of each phase",
       .check = IntegerIn(1, 86400),
       .show_default = true},
      {.names = "--calm-seconds",
       .variable = &flags->calm_seconds,
       .help = "Of the two phases without attackers; 0: as --seconds",
       .check = IntegerIn(0, 86400),
       .show_default = true},
      {.names = "--innocents",
       .variable = &flags->innocents,
       .help = "Clients that behave",
       .check = IntegerIn(1, 1000),
       .show_default = true},
      {.names = "--role",
       .variable = &flags->role,
       .help = "both, innocents or attackers: two processes that are started together can have "
               "different shares of the processors",
       .check = OneOf("both,innocents,attackers"),
       .show_default = true},
  });
}

// False: the report is not what innocents may expect.
bool Print(const std::string& phase, const InnocentReport& report,
           const std::map<std::string, std::map<std::string, int64_t>>& others) {
  nlohmann::json json{{"phase", phase},
                      {"answers", report.answers},
                      {"failures", report.failures},
                      {"different", report.different},
                      {"total_p50_ms", report.total_p50_ms},
                      {"total_p99_ms", report.total_p99_ms},
                      {"first_p99_ms", report.first_p99_ms},
                      {"gap_max_ms", report.gap_max_ms},
                      {"first_failures", report.first_failures},
                      {"others", others}};
  std::cout << json.dump() << std::endl;
  return report.failures == 0 && report.different == 0 && report.answers > 0;
}

std::vector<NamedAttack> Chosen(const std::string& names) {
  std::vector<NamedAttack> attacks = AllAttacks();
  if (names == "all") return attacks;
  const std::vector<std::string> wanted = absl::StrSplit(names, ',', absl::SkipEmpty());
  std::erase_if(attacks, [&](const NamedAttack& attack) {
    return std::find(wanted.begin(), wanted.end(), attack.name) == wanted.end();
  });
  return attacks;
}

int Soak(const Flags& flags) {
  const SystemClock clock;
  Innocents innocents(flags.address, flags.innocents, &clock);
  const std::vector<NamedAttack> attacks = Chosen(flags.attacks);
  if (attacks.empty()) {
    std::cerr << "tutti-soak: --attacks " << flags.attacks << " names none\n";
    return 2;
  }
  const AttackTargets targets{
      .address = flags.address,
      .peer_addresses = absl::StrSplit(flags.peers, ',', absl::SkipEmpty())};
  bool well = true;
  const auto run = [&](const std::string& phase, const std::vector<NamedAttack>& with,
                       Duration length) {
    const Instant end = clock.Now() + length;
    Attackers others(targets);
    if (flags.role != "innocents") others.Start(with);
    InnocentReport report;
    if (flags.role != "attackers") report = innocents.Run(length);
    // The next phase begins for both roles at the same time, but for the last answers.
    std::this_thread::sleep_for(std::max(Duration::zero(), end - clock.Now()));
    others.Stop();
    const bool is_well = Print(phase, report, others.Ends());
    well &= is_well || flags.role == "attackers";
  };
  const Duration length = std::chrono::seconds(flags.seconds);
  const Duration calm =
      flags.calm_seconds == 0 ? length : std::chrono::seconds(flags.calm_seconds);
  run("alone", {}, calm);
  run("busy", OrdinaryInsteadOf(attacks), calm);
  run("attacked", attacks, length);
  return well ? 0 : 1;
}

}  // namespace
}  // namespace tutti::tests

int main(int argc, char** argv) {
  tutti::tests::Flags flags;
  tutti::FlagSet program("tutti-soak", "What innocent clients notice while others attack.");
  tutti::tests::AddFlags(&program, &flags);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  return tutti::tests::Soak(flags);
}
