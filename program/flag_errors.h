// The parser's errors in our words: what is wrong, and what to do.
//
// Pure; any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tutti {

// The option that an error of the parser's is about, in a command or a program that has it; null if
// it is about none.
const CLI::Option* OptionOf(const CLI::App& command, const CLI::ParseError& error);

// An argument that neither the program nor the command knows.
std::string ExplainUnknown(const CLI::App& command, const std::string& argument);

// Any other error. `option`: OptionOf it.
std::string ExplainError(const CLI::App& command, const CLI::ParseError& error,
                         const CLI::Option* option);

}  // namespace tutti
