#include "client/config_file.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace tutti::client {
namespace {

class ConfigReader : public CLI::ConfigTOML {
 public:
  explicit ConfigReader(const CLI::App* root) : root_(root) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(in);
    items.erase(std::remove_if(items.begin(), items.end(),
                               [this](const CLI::ConfigItem& item) { return InEnvironment(item); }),
                items.end());
    return items;
  }

 private:
  bool InEnvironment(const CLI::ConfigItem& item) const {
    const CLI::App* app = root_;
    for (const std::string& parent : item.parents) {
      const auto named = app->get_subcommands(
          [&parent](const CLI::App* sub) { return sub->get_name() == parent; });
      if (named.empty()) return false;
      app = named.front();
    }
    const CLI::Option* option = app->get_option_no_throw("--" + item.name);
    return option != nullptr && !option->get_envname().empty() &&
           std::getenv(option->get_envname().c_str()) != nullptr;
  }

  const CLI::App* const root_;
};

}  // namespace

std::shared_ptr<CLI::Config> MakeConfigReader(const CLI::App* root) {
  return std::make_shared<ConfigReader>(root);
}

}  // namespace tutti::client
