// A library with one busy function, named by the build (-DSPIN=name), to distinguish two libraries
// of the same size.
#include "spin.h"

NOINLINE void SPIN(uint64_t rounds) { spin(rounds); }
