// The flags of a program, declared as tables: the variable that each one sets, the values that it
// takes, its other sources, and its text in --help.
//
//   FlagSet flags("tutti-worker", "Serves one shard of a model.");
//   flags.Add({
//       {.names = "--threads", .variable = &threads, .help = "Compute threads",
//        .environment = "TUTTI_THREADS", .check = IntegerIn(0, 512), .show_default = true},
//   });
//   if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
//
// The parser behind it (CLI11) is seen by flags.cc only: parsing its header takes seconds.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/status.h"
#include "program/flag_checks.h"

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace tutti {

class FlagFile;

// The variable that a flag sets; its value before Parse is the flag's default. A bool is a
// switch that takes no value. std::monostate: no variable, see FlagSet::Text. The `check` says what
// a Duration is given in, and of an int64_t whether it is bytes; durations beyond kLongestFlag are
// that.
using FlagVariable =
    std::variant<std::monostate, bool*, int32_t*, uint32_t*, int64_t*, uint64_t*, float*, double*,
                 Duration*, std::string*, std::optional<int32_t>*, std::optional<uint32_t>*,
                 std::optional<uint64_t>*, std::optional<float>*, std::vector<int32_t>*,
                 std::vector<int64_t>*, std::vector<std::string>*>;

// How a flag whose variable is a vector takes its values.
enum class FlagList : uint8_t {
  kWords,     // --rows 1 2 3, or --rows 1 --rows 2
  kCommas,    // --rows 1,2,3
  kRepeated,  // --stop a --stop b: one value each time
};

// A row of the table.
struct Flag {
  // All spellings: "-a,--address". Of a switch: "--on,!--off".
  absl::string_view names;
  FlagVariable variable = {};
  absl::string_view help = {};
  // The variable of the environment that it is read from when it is not given, where that is not
  // the prefix and the flag's first long name: see ReadEnvironment.
  absl::string_view environment = {};
  FlagCheck check = {};
  // Whether --help shows the default.
  bool show_default = false;
  // The default that --help shows of a flag without a variable.
  absl::string_view default_text = {};
  bool required = false;
  FlagList list = FlagList::kWords;
  // Flags declared before that cannot be given together with this one.
  std::vector<absl::string_view> excludes = {};
};

// The prefix of the variables of the environment that our programs read.
inline constexpr absl::string_view kEnvironmentPrefix = "TUTTI_";

// The flag of every program with a --config file that prints its settings.
inline constexpr absl::string_view kShowSettings = "--show-settings";

// Exit code of a program whose flags cannot be right.
inline constexpr int kExitUsageError = 2;

// The flags of a program or of one of its commands. A value comes from the command line, or else
// from the environment, or else from the file, or else it is the default.
class FlagSet {
 public:
  FlagSet(absl::string_view program, absl::string_view description);
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // --version prints `text`.
  void AddVersion(std::string_view text);
  // A switch that prints what `text` makes and ends the program, whatever else is given or lacks.
  void AddReport(absl::string_view name, absl::string_view help, std::function<std::string()> text);
  // From here on every flag, of commands too, has a variable of the environment: `prefix` and its
  // name, "TUTTI_" and "--max-memory" make TUTTI_MAX_MEMORY. A variable without a text is none.
  void ReadEnvironment(absl::string_view prefix) { prefix_ = std::string(prefix); }
  // --config FILE, in TOML: the flags without "--" are its keys, every command has a section. What
  // no flag or command has for a name is an error. And --show-settings, of commands that are added
  // from here on too: Parse prints what Settings makes and ends the program.
  void AddFile(absl::string_view help);
  // The text of --help below the flags.
  void AddFooter(absl::string_view text);
  // The variables live at least as long as the FlagSet. Flags of a `group` have a heading of their
  // own in --help.
  void Add(std::initializer_list<Flag> flags, absl::string_view group = {});
  // A command of this program, which from then on needs one. The FlagSet belongs to the program's.
  FlagSet* AddCommand(absl::string_view name, absl::string_view description);

  // Sets the variables. Returns the exit code when the program is to end now: 0 after --help and
  // --version, kExitUsageError after an error, which is printed on stderr.
  std::optional<int> Parse(int argc, const char* const* argv);
  // The same for arguments without the program's name, printing nothing: INVALID_ARGUMENT instead.
  absl::Status ParseArguments(std::vector<std::string> arguments);
  // After Parse: all flags as lines of a --config file, each with the source of its value. `line`:
  // the arguments that were parsed.
  std::string Settings(const std::vector<std::string>& line) const;

  // Of a command: arguments that it has no flag for are no errors of Parse but Others().
  void TakeOthers();
  // After Parse, in order.
  std::vector<std::string> Others() const;
  // The text for one of them that is an error after all.
  std::string ExplainOther(const std::string& argument) const;
  // The variables of the environment that this command's flags are read from.
  std::vector<std::string> Variables() const;

  // After Parse: whether this is the command that was given.
  bool chosen() const;
  // After Parse: whether the flag was given, by any source.
  bool Given(absl::string_view name) const;
  // REQUIRES: Given(name). The first value as it was written.
  std::string Text(absl::string_view name) const;

 private:
  FlagSet(CLI::App* command, const FlagSet& parent);

  void AddShowSettings();
  bool ShowsSettings() const;
  std::optional<int> PrintSettings(const std::vector<std::string>& line) const;
  void AddOne(const Flag& flag, absl::string_view group);
  // The text for an error of the parser: what is wrong, where it stands, and what to do.
  std::string Explain(const CLI::ParseError& error, const std::vector<std::string>& line) const;

  std::unique_ptr<CLI::App> program_;  // null of a command
  CLI::App* const app_;
  std::string prefix_;
  std::shared_ptr<const FlagFile> file_;
  std::vector<std::pair<CLI::Option*, std::string>> variables_;  // of a command's flags
  std::vector<std::unique_ptr<FlagSet>> commands_;
};

}  // namespace tutti
