// copies LIBRARY...: loads the libraries in sequence, each with a function pure_spin, and uses 4 ms
// of CPU time in each.
#include <dlfcn.h>

#include "spin.h"

typedef uint64_t (*spinner)(uint64_t);

NOINLINE void in_a_copy(spinner f) {
    uint64_t end = thread_cpu_ns() + 4 * 1000000ull;
    while (thread_cpu_ns() < end) f(20000);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW);
        if (!library) return 3;
        spinner f = (spinner)dlsym(library, "pure_spin");
        if (!f) return 4;
        in_a_copy(f);
    }
    return 0;
}
