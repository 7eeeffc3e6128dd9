#include "client/passed_on.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/child_process.h"
#include "client/format.h"
#include "client/limits.h"
#include "client/local_paths.h"
#include "program/flags.h"

namespace tutti::client {
namespace {

// What a person who asks a service has set for the other commands of `tutti`.
constexpr absl::string_view kOfClients[] = {"certs", "tls-cert", "tls-key", "tls-ca"};
// Of `tutti` itself, and of commands that it runs (--exec).
constexpr absl::string_view kOfTutti[] = {"config", "address", "admin", "http", "grpc"};

template <size_t size>
bool IsIn(const absl::string_view (&list)[size], absl::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// The names of options in lines of a --config file, those without a value among them.
std::set<std::string> NamesIn(const std::string& settings) {
  std::set<std::string> names;
  for (absl::string_view line : absl::StrSplit(settings, '\n')) {
    if (absl::StartsWith(line, "# ")) line.remove_prefix(2);
    const absl::string_view name = line.substr(0, line.find(' '));
    if (!name.empty() && name[0] != '[') names.emplace(name);
  }
  return names;
}

absl::StatusOr<std::string> AskOne(const std::string& program, const std::string& file) {
  TUTTI_ASSIGN_OR_RETURN(const std::string path, ProgramBeside("tutti-" + program));
  ChildSpec spec = {.arguments = {path, std::string(kShowSettings)}, .log_file = file};
  spec.environment_dropped = std::string(kEnvironmentPrefix);
  TUTTI_ASSIGN_OR_RETURN(ShortRun run,
                         RunShortly(spec, std::chrono::milliseconds(kListDevicesPatienceMs)));
  if (run.wait_status.has_value() && ExitCodeOfWaitStatus(*run.wait_status) == 0) {
    return std::move(run.said);
  }
  return absl::UnavailableError(
      absl::StrCat(path, " does not say which options it has; is it of the same build as tutti?",
                   run.said.empty() ? "" : " It says: ", OneLine(run.said)));
}

ProgramExtras* ExtrasFor(absl::string_view program, PassedOn* passed) {
  return program == "gateway"       ? &passed->gateway
         : program == "coordinator" ? &passed->coordinator
                                    : &passed->workers;
}

// The program that an option is for; "" for none.
std::string ProgramOf(absl::string_view name, const std::vector<ProgramOptions>& programs) {
  for (const ProgramOptions& one : programs) {
    if (one.names.count(std::string(name)) > 0) return one.program;
  }
  return "";
}

// "coordinator.tls-cert" → coordinator, tls-cert.
std::pair<std::string, std::string> ProgramAndName(absl::string_view word,
                                                   const std::vector<ProgramOptions>& programs) {
  const size_t dot = word.find('.');
  if (dot == absl::string_view::npos) return {ProgramOf(word, programs), std::string(word)};
  const absl::string_view name = word.substr(dot + 1);
  for (const ProgramOptions& one : programs) {
    if (one.program == word.substr(0, dot) && one.names.count(std::string(name)) > 0) {
      return {one.program, std::string(name)};
    }
  }
  return {"", std::string(name)};
}

absl::Status PassArguments(const std::vector<std::string>& others,
                           const std::vector<ProgramOptions>& programs, PassedOn* passed,
                           std::string* unknown) {
  std::vector<std::string>* to = nullptr;
  for (const std::string& argument : others) {
    if (!absl::StartsWith(argument, "--")) {
      if (to == nullptr) return absl::InvalidArgumentError(*unknown = argument);
      to->push_back(argument);  // the value of the option before
      continue;
    }
    const absl::string_view word = absl::string_view(argument).substr(2, argument.find('=') - 2);
    const auto [program, name] = ProgramAndName(word, programs);
    if (program.empty()) return absl::InvalidArgumentError(*unknown = argument);
    if (IsTied(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--", word, " ties the programs together, and tutti up sets it itself; leave it out"));
    }
    to = &ExtrasFor(program, passed)->arguments;
    to->push_back(absl::StrCat("--", name, argument.substr(word.size() + 2)));
  }
  return absl::OkStatus();
}

void PassVariables(const std::vector<std::string>& environment,
                   const std::vector<ProgramOptions>& programs, PassedOn* passed) {
  for (const std::string& entry : environment) {
    const std::string variable = entry.substr(0, entry.find('='));
    const std::string value = entry.substr(variable.size() + 1);
    const std::string name = absl::StrReplaceAll(
        absl::AsciiStrToLower(variable.substr(kEnvironmentPrefix.size())), {{"_", "-"}});
    const std::string program = ProgramOf(name, programs);
    if (value.empty() || IsIn(kOfTutti, name)) continue;
    if (program.empty()) {
      for (const absl::string_view any : kProgramsOfUp) {
        ExtrasFor(any, passed)->environment.push_back(entry);
      }
    } else if (IsTied(name)) {
      passed->notices.push_back(absl::StrCat(
          variable, " is left out: it ties programs together, and tutti up sets that itself"));
    } else if (IsIn(kOfClients, name)) {
      passed->notices.push_back(
          absl::StrCat(variable, " is left out: it is a client's; the gateway's is --", name));
    } else {
      ExtrasFor(program, passed)->environment.push_back(entry);
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<ProgramOptions>> AskForOptions(bool with_gateway) {
  TUTTI_ASSIGN_OR_RETURN(const std::string folder, MakePrivateDir());
  absl::Status status;
  std::vector<ProgramOptions> all;
  for (const absl::string_view program : kProgramsOfUp) {
    if (program == "gateway" && !with_gateway && !ProgramBeside("tutti-gateway").ok()) continue;
    const auto said = AskOne(std::string(program), absl::StrCat(folder, "/", program));
    status.Update(said.status());
    if (said.ok()) all.push_back({std::string(program), NamesIn(*said)});
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!status.ok()) return status;
  return all;
}

absl::StatusOr<PassedOn> PassOn(const std::vector<std::string>& others,
                                const std::vector<std::string>& environment,
                                const std::vector<ProgramOptions>& programs, std::string* unknown) {
  PassedOn passed;
  TUTTI_RETURN_IF_ERROR(PassArguments(others, programs, &passed, unknown));
  PassVariables(environment, programs, &passed);
  return passed;
}

std::vector<std::string> VariablesForPrograms(const std::vector<std::string>& own) {
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (!absl::StartsWith(name, kEnvironmentPrefix) || name.size() == text.size()) continue;
    if (std::find(own.begin(), own.end(), name) == own.end()) found.push_back(text);
  }
  return found;
}

}  // namespace tutti::client
