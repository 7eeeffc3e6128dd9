// The work that is done before a failed CHECK aborts.
#pragma once

namespace tutti {

// Called once then, for a log to write what it has; null: nothing.  Thread: any.
void SetLastWords(void (*say)());

}  // namespace tutti
