// Sleeps with its stack pointer in unreadable memory: userfaultfd that no thread handles.
#include "wait.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

int main(void) {
#ifndef __x86_64__
    skip("it is written for x86-64");
#endif
    const size_t size = 1 << 16;
    long descriptor = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (descriptor < 0) skip("no userfaultfd: %s", strerror(errno));
    struct uffdio_api api = {.api = UFFD_API};
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {
        .range = {.start = (uintptr_t)memory, .len = size},
        .mode = UFFDIO_REGISTER_MODE_MISSING,
    };
    if (memory == MAP_FAILED || ioctl((int)descriptor, UFFDIO_API, &api) ||
        ioctl((int)descriptor, UFFDIO_REGISTER, &range)) {
        skip("no userfaultfd: %s", strerror(errno));
    }
    dprintf(1, "{\"tid\":%ld}\n", (long)gettid());
    close(1);
    // Nothing is pushed: a system call does not need the program's stack.
#ifdef __x86_64__
    asm volatile("mov %0, %%rsp\n"
                 "mov $34, %%eax\n" // pause
                 "syscall\n"
                 "hlt\n" ::"r"(memory + size / 2)
                 : "memory");
#endif
    return 0;
}
