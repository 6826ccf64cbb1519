// A process that waits for its child, which waits for its own child: "slow", which burns 60 ms. The other two work before and after they wait.
// A piece begins where the parent's fork returned, or where the child had done its part, just before its exit.
#include "path.h"
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

// The processes share their times.
static struct shared {
    pid_t middle, slow;
    uint64_t forked_middle, forked_slow, end_of_slow, end_of_middle;
} *shared;

static pid_t start_child(const char *name, void (*run)(void), uint64_t *forked) {
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
        prctl(PR_SET_NAME, name);
        run();
        _exit(0);
    }
    *forked = now_ns();
    return child;
}

static void wait_for(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) die("waitpid");
}

static void slow(void) {
    burn_ms(60);
    shared->end_of_slow = now_ns();
}

static void middle(void) {
    burn_ms(20);
    shared->slow = start_child("slow", slow, &shared->forked_slow);
    wait_for(shared->slow);
    burn_ms(10);
    shared->end_of_middle = now_ns();
}

static void print_piece(const char *name, pid_t tid, uint64_t start, uint64_t end) {
    printf("{\"piece\":\"%s\",\"tid\":%d,\"start\":%lu,\"end\":%lu}\n", name, tid, start, end);
}

int main(void) {
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) die("mmap");
    uint64_t start = now_ns();
    burn_ms(5);
    shared->middle = start_child("middle", middle, &shared->forked_middle);
    wait_for(shared->middle);
    burn_ms(5);
    uint64_t end = now_ns();
    printf("{\"window\":%d,\"start\":%lu,\"end\":%lu}\n", getpid(), start, end);
    print_piece("first", getpid(), start, shared->forked_middle);
    print_piece("before slow", shared->middle, shared->forked_middle, shared->forked_slow);
    print_piece("slow", shared->slow, shared->forked_slow, shared->end_of_slow);
    print_piece("after slow", shared->middle, shared->end_of_slow, shared->end_of_middle);
    print_piece("last", getpid(), shared->end_of_middle, end);
    return 0;
}
