// A thread that reads a pipe through io_uring, without a library, and waits for the completion: "writer" burns 60 ms, then writes. io_uring
// waits for the pipe in the name of the reader, so that the write itself completes the read.
#include "path.h"
#include <linux/io_uring.h>
#include <sys/mman.h>

static int ring, pipe_ends[2];

static char *map(size_t bytes, off_t what) {
    void *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
    if (memory == MAP_FAILED) die("mmap");
    return memory;
}

static void *writer(void *unused) {
    burn_ms(60);
    piece_ends("writer");
    if (write(pipe_ends[1], "x", 1) != 1) die("write");
    return unused;
}

int main(void) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    ring = (int)syscall(SYS_io_uring_setup, 4, &p);
    if (ring < 0) skip("no io_uring: %s", strerror(errno));
    if (pipe(pipe_ends)) die("pipe");
    char *sq = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *cq = map(p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    struct io_uring_sqe *sqe = (struct io_uring_sqe *)map(p.sq_entries * sizeof *sqe, IORING_OFF_SQES);
    char byte = 0;
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = IORING_OP_READ;
    sqe->fd = pipe_ends[0];
    sqe->addr = (uintptr_t)&byte;
    sqe->len = 1;
    ((unsigned *)(sq + p.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);

    window_begins();
    pthread_t thread = start_thread("writer", writer);
    burn_ms(5);
    piece_ends("first");
    // Only the writer takes longer than that.
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) != 1) die("io_uring_enter");
    int result = ((struct io_uring_cqe *)(cq + p.cq_off.cqes))->res;
    if (result != 1 || byte != 'x') skip("io_uring reads a pipe here with %d", result);
    burn_ms(5);
    window_ends("last");
    pthread_join(thread, 0);
    return 0;
}
