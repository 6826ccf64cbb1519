// Reads through io_uring without a library: directly and through the page cache, in the calling
// thread and in a worker of the kernel.
#include "wait.h"
#include <linux/io_uring.h>
#include <sys/mman.h>

static int ring;
static unsigned *sq_tail, *sq_array, sq_mask, *cq_head, *cq_tail, cq_mask;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;

static void *map(size_t bytes, off_t what) {
    void *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
    if (memory == MAP_FAILED) die("mmap");
    return memory;
}

static void set_up(void) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    ring = (int)syscall(SYS_io_uring_setup, 8, &p);
    if (ring < 0) skip("no io_uring: %s", strerror(errno));
    char *sq = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *cq = map(p.cq_off.cqes + p.cq_entries * sizeof *cqes, IORING_OFF_CQ_RING);
    sqes = map(p.sq_entries * sizeof *sqes, IORING_OFF_SQES);
    sq_tail = (unsigned *)(sq + p.sq_off.tail), sq_array = (unsigned *)(sq + p.sq_off.array), sq_mask = *(unsigned *)(sq + p.sq_off.ring_mask);
    cq_head = (unsigned *)(cq + p.cq_off.head), cq_tail = (unsigned *)(cq + p.cq_off.tail), cq_mask = *(unsigned *)(cq + p.cq_off.ring_mask);
    cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
}

static void read_at(const char *name, const char *path, int fd, char *buffer, unsigned bytes, uint64_t offset, unsigned flags) {
    unsigned at = *sq_tail & sq_mask;
    struct io_uring_sqe *sqe = &sqes[at];
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = IORING_OP_READ;
    sqe->flags = (uint8_t)flags;
    sqe->fd = fd;
    sqe->addr = (uintptr_t)buffer;
    sqe->len = bytes;
    sqe->off = offset;
    sq_array[at] = at;
    __atomic_store_n(sq_tail, *sq_tail + 1, __ATOMIC_RELEASE);
    struct episode *episode = begin(name);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) != 1) die("io_uring_enter");
    end(episode);
    if (__atomic_load_n(cq_tail, __ATOMIC_ACQUIRE) == *cq_head) die("no completion");
    int result = cqes[*cq_head & cq_mask].res;
    if (result != (int)bytes) skip("io_uring reads here with %d", result);
    __atomic_store_n(cq_head, *cq_head + 1, __ATOMIC_RELEASE);
    episode->file = path;
    episode->offset = offset;
    episode->bytes = bytes;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    set_up();
    const char *direct = new_file(argv[1], "direct", 2 * EPISODES << 18), *cached = new_file(argv[1], "cached", EPISODES << 16);
    char *buffer = new_buffer(1 << 18);
    int fd = open_direct(direct);
    for (uint64_t i = 0; i < EPISODES; i++) read_at("direct", direct, fd, buffer, 1 << 18, i << 18, 0);
    for (uint64_t i = EPISODES; i < 2 * EPISODES; i++) read_at("direct by a worker", direct, fd, buffer, 1 << 18, i << 18, IOSQE_ASYNC);
    fd = open_cold(cached);
    for (uint64_t i = 0; i < EPISODES; i++) read_at("buffered", cached, fd, buffer, PAGE, i << 16, 0);
    print_episodes();
    return 0;
}
