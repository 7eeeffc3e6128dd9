// An environment variable that is set while this lives, and then is what it was before.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace tutti {

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& text) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    setenv(name, text.c_str(), 1);
  }
  ~ScopedVariable() {
    if (before_.has_value()) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace tutti
