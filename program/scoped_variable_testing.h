// An environment variable that is set while this lives.
#pragma once

#include <cstdlib>

namespace tutti {

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* text) : name_(name) { setenv(name, text, 1); }
  ~ScopedVariable() { unsetenv(name_); }

 private:
  const char* const name_;
};

}  // namespace tutti
