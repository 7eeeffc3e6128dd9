// The parts that every subcommand of `tutti` shares: registration, connection to the service,
// errors and exit codes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "client/client.h"
#include "client/limits.h"
#include "program/flags.h"

namespace tutti::client {

// A subcommand: its flags, and its work in `run`, which returns the exit code. Main runs the one
// that was given after all flags are read.
struct Command {
  const FlagSet* flags = nullptr;
  std::function<int()> run;
};

Command MakeUpCommand(FlagSet* program);
Command MakeGenerateCommand(FlagSet* program);
Command MakeChatCommand(FlagSet* program);
Command MakeBenchCommand(FlagSet* program);
Command MakeStatusCommand(FlagSet* program);
Command MakeLookupCommand(FlagSet* program);
Command MakeDrainCommand(FlagSet* program);
Command MakeCertsCommand(FlagSet* program);
Command MakePlanCommand(FlagSet* program);
Command MakeQuantizeCommand(FlagSet* program);
Command MakeTokenizeCommand(FlagSet* program);
Command MakeDetokenizeCommand(FlagSet* program);

// Exit codes, the same for every subcommand.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,              // the service or the system refused or failed
  kExitUsage = kExitUsageError,  // flags or input that cannot be right
  kExitUnavailable = 3,          // no service there, or it cannot serve now: try again later
  kExitDeadline = 4,             // --timeout passed
  kExitInterrupted = 130,
};

// Prints "tutti: <message>" on stderr and returns the exit code of the status.
int Fail(const absl::Status& status);

// The flags of every subcommand that talks to a service.
struct ServiceFlags {
  ClientOptions client;
  std::string certificate_folder;
  std::string api_key_file;  // empty: TUTTI_API_KEY
  bool has_key = false;      // the command tells a key, if there is one
  double timeout_s = 0;      // 0: none
  double resume_within_s = Seconds(kResumeWithin);
};
void AddServiceFlags(FlagSet* set, ServiceFlags* flags);
// The same and --resume-within, of commands that generate.
void AddGenerateServiceFlags(FlagSet* set, ServiceFlags* flags);
// The same as the first and --admin, of commands whose calls are an operator's.
void AddOperatorFlags(FlagSet* set, ServiceFlags* flags);
absl::StatusOr<std::unique_ptr<Client>> MakeClient(const ServiceFlags& flags);
CallOptions MakeCallOptions(const ServiceFlags& flags, CancelToken* cancel);

// Tenant and priority of a request, for commands that generate.
struct AskerFlags {
  std::string tenant;
  int32_t priority = 0;
};
void AddAskerFlags(FlagSet* set, AskerFlags* flags);
void FillAsker(const AskerFlags& flags, v1::GenerateRequest* request);

// The way in which a prompt's text becomes ids, for commands that take one.
struct TextReadingFlags {
  bool split_special_tokens = false;
  bool omit_special_tokens = false;
};
void AddTextReadingFlags(FlagSet* set, TextReadingFlags* flags);
// Into the field of that name, which stays unset where no flag was given.
template <typename Request>
void FillTextReading(const TextReadingFlags& flags, Request* request) {
  if (flags.split_special_tokens) {
    request->mutable_text_reading()->set_split_special_tokens(true);
  }
  if (flags.omit_special_tokens) request->mutable_text_reading()->set_omit_special_tokens(true);
}

// `message` as JSON on one line, or indented for people; field names as in proto/, numbers that are
// 0 included.
std::string ToJson(const google::protobuf::Message& message, bool indented);

// The whole of a file, or of standard input for "-". INVALID_ARGUMENT beyond `bytes_max`.
absl::StatusOr<std::string> ReadText(const std::string& path, int64_t bytes_max);

}  // namespace tutti::client
