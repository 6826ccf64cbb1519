// Code that changes at an address: library A, then B in the same place, then B's code moved by
// mremap.
//
// dlswap A.so B.so: prints where each function was; exit status 4 if the loader did not reuse the
// place.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spin.h"

#ifndef PAGE
#define PAGE ((size_t)4096)
#endif

typedef void (*spinner)(uint64_t);

static void run_for(spinner f, uint64_t ms) {
    uint64_t end = thread_cpu_ns() + ms * 1000000u;
    while (thread_cpu_ns() < end) f(100000);
}

NOINLINE void phase_a(spinner f) {
    run_for(f, 400);
    __asm__ volatile("# a, so that no two phases are one function to the compiler");
}

NOINLINE void phase_b(spinner f) {
    run_for(f, 400);
    __asm__ volatile("# b");
}

NOINLINE void phase_moved(spinner f) {
    run_for(f, 400);
    __asm__ volatile("# moved");
}

// Moves the whole library, to keep its data at the same distance from its code: the code in one
// call, the rest page by page, because one call can't cross the border of two mappings. Returns the
// new base, or null.
static char *move_library(char *base) {
    const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)base;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(base + elf->e_phoff);
    ElfW(Phdr) loads[8];
    size_t count = 0, span = 0;
    for (int i = 0; i < elf->e_phnum && count < 8; i++)
        if (segments[i].p_type == PT_LOAD) {
            loads[count++] = segments[i];
            span = segments[i].p_vaddr + segments[i].p_memsz;
        }
    char *place = mmap(0, span + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) return 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = loads[i].p_vaddr & ~(PAGE - 1), end = (loads[i].p_vaddr + loads[i].p_memsz + PAGE - 1) & ~(PAGE - 1);
        size_t step = loads[i].p_flags & PF_X ? end - at : PAGE;
        for (; at < end; at += step)
            if (mremap(base + at, step, step, MREMAP_MAYMOVE | MREMAP_FIXED, place + at) == MAP_FAILED) return 0;
    }
    return place;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    void *a = dlopen(argv[1], RTLD_NOW);
    if (!a) return 3;
    spinner in_a = (spinner)dlsym(a, "spin_in_a");
    phase_a(in_a);
    dlclose(a);
    void *b = dlopen(argv[2], RTLD_NOW);
    if (!b) return 3;
    spinner in_b = (spinner)dlsym(b, "spin_in_b");
    phase_b(in_b);
    Dl_info info;
    if (!dladdr((void *)in_b, &info)) return 3;
    char *place = move_library(info.dli_fbase);
    if (!place) return 5;
    spinner in_moved = (spinner)(place + ((char *)in_b - (char *)info.dli_fbase));
    phase_moved(in_moved);
    printf("a=%p b=%p moved=%p\n", (void *)in_a, (void *)in_b, (void *)in_moved);
    fflush(stdout);
    // The loader's lists point to the library's old place: leave without running its exit code.
    _exit(in_a == in_b ? 0 : 4);
}
