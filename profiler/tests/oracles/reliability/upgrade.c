// upgrade LIBRARY: loads LIBRARY and burns 200 ms of CPU time in its function spin_in_old or spin_in_new.
#include <dlfcn.h>

#include "../spin.h"

typedef uint64_t (*spinner)(uint64_t);

NOINLINE static void work(spinner f) {
    uint64_t end = thread_cpu_ns() + 200 * 1000000ull;
    while (thread_cpu_ns() < end) f(100000);
    __asm__ volatile("");
}

NOINLINE static void in_old(spinner f) {
    work(f);
    __asm__ volatile("# old");
}

NOINLINE static void in_new(spinner f) {
    work(f);
    __asm__ volatile("# new");
}

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
    if (!library) return 3;
    spinner f = (spinner)dlsym(library, "spin_in_old");
    if (f) {
        in_old(f);
        return 0;
    }
    f = (spinner)dlsym(library, "spin_in_new");
    if (!f) return 4;
    in_new(f);
    return 0;
}
