// Function attribute of the vector kernels: their helpers must vanish into the loop that uses them,
// or the registers they pass would travel through memory.
#pragma once

#define TUTTI_INLINE [[gnu::always_inline]] static inline
