// The last line of a process that ends where it stands.
#pragma once

#include <string>

namespace tutti {

// Called once before that line, for a log to write what it has; null: nothing.  Thread: any.
void SetLastWords(void (*say)());

// Writes the line to stderr, if whoever reads that takes it in a moment.  Thread: any.
void SayLastWords(const std::string& line);

}  // namespace tutti
