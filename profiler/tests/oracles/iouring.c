// Makes the kernel create an io_uring worker thread for this process; exit status 77 if io_uring is
// not available.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spin.h"

int main(int argc, char **argv) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    int ring = (int)syscall(SYS_io_uring_setup, 8, &p);
    if (ring < 0) return errno == ENOSYS || errno == EPERM ? 77 : 3;
    size_t sq_size = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    char *sq = mmap(0, sq_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *sqes = mmap(0, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    if (sq == MAP_FAILED || (void *)sqes == MAP_FAILED) return 3;
    static char buffer[1 << 16];
    int fd = open(argc > 1 ? argv[1] : argv[0], O_RDONLY);
    unsigned *tail = (unsigned *)(sq + p.sq_off.tail), mask = *(unsigned *)(sq + p.sq_off.ring_mask);
    for (int i = 0; i < 50; i++) {
        struct io_uring_sqe *sqe = &sqes[*tail & mask];
        memset(sqe, 0, sizeof *sqe);
        sqe->opcode = IORING_OP_READ;
        sqe->flags = IOSQE_ASYNC;
        sqe->fd = fd;
        sqe->addr = (uintptr_t)buffer;
        sqe->len = sizeof buffer;
        ((unsigned *)(sq + p.sq_off.array))[*tail & mask] = *tail & mask;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0) return 3;
        spin_cpu_ms(5);
    }
    printf("pid=%d\n", getpid());
    return 0;
}
