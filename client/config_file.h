// The --config file: TOML, one section per subcommand, keys as the flags without "--".
//
// What is given on the command line wins over the environment, and the environment over the file.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace tutti::client {

// Reads the file as CLI11 does, less the keys whose flag has its environment variable set (CLI11
// itself would let the file win over the environment).
std::shared_ptr<CLI::Config> MakeConfigReader(const CLI::App* root);

}  // namespace tutti::client
