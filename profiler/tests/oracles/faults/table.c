// A library with read-only, written and zeroed data of known names and sizes.
#ifndef PAGE
#define PAGE 4096
#endif

__attribute__((aligned(PAGE))) const char known_table[128 * PAGE] = {1, 2, 3};
__attribute__((aligned(PAGE))) char known_data[16 * PAGE] = {1, 2, 3};
__attribute__((aligned(PAGE))) char known_bss[16 * PAGE];
