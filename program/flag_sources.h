// The sources of the values of options, and all of them as a program sees them.
//
// Pure, but for the environment; any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "program/flag_file.h"

namespace tutti {

// "the command line", "the environment's TUTTI_THREADS", "worker.toml:3"; "" of one that is not
// given. `line`: the arguments of the program. `file`: null where the program reads none.
std::string SourceOf(const CLI::Option& option, const std::vector<std::string>& line,
                     const FlagFile* file);
inline constexpr char kFromCommandLine[] = "the command line";

// Every option that a --config file may hold, of the program and of the command that was given, as
// lines of such a file: those that are given with their source behind, the others as remarks.
// REQUIRES: CLI11 has parsed `line` for the command's program
std::string SettingsText(const CLI::App& command, const std::vector<std::string>& line,
                         const FlagFile* file);

}  // namespace tutti
