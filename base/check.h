// Invariants of our own code. A failed CHECK prints file, line, condition and message, and aborts.
//
//   CHECK(free + used == total) << "free " << free << ", used " << used;
//
// CHECK is always on. PARANOID_CHECK is compiled in by the debug and sanitizer presets only.
// Neither may be reachable by bytes from outside the process: those are answered with a Status.
#pragma once

#include <sstream>

namespace tutti::internal {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Gives the stream expression type void, so that CHECK is one statement in an if without braces.
struct Voidify {
  void operator&(std::ostream&) {}
};

}  // namespace tutti::internal

#define CHECK(condition)                       \
  (condition) ? (void)0                        \
              : ::tutti::internal::Voidify() & \
                    ::tutti::internal::CheckFailure(__FILE__, __LINE__, #condition).stream()

#ifdef TUTTI_PARANOID
#define PARANOID_CHECK(condition) CHECK(condition)
#else
#define PARANOID_CHECK(condition) CHECK(true || (condition))
#endif
