// A library with one busy function, whose name the build gives (-DSPIN=name), so that two of equal size can be told apart.
#include "spin.h"

NOINLINE void SPIN(uint64_t rounds) { spin(rounds); }
