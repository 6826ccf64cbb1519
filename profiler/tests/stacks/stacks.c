// Puts known functions on its own stack, then writes what a sample would hold: registers, maps, and the stack itself.
//
// Usage: stacks CASE FILE. The file: ip, sp, fp, lr (arm64; else 0), stack length (u64 each), the stack, then text: one line "NAME ADDRESS" for each
// function, an empty line, and /proc/self/maps.
#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *output;
static volatile int sink;
int lazy(int);
extern void (*lazy_hook)(void);

int recurse(int depth, void (*last)(void));
int realigned(int depth, void (*last)(void));
int variable(int depth, void (*last)(void));
int through_lazy(void);
void handler(int);
void by_signal(void);
void *thread(void *);
int main(int, char **);

__attribute__((noinline)) void dump(void) {
    uint64_t head[5] = {0};
    char name[64];
    size_t len = 0;
    static char text[1 << 20];
#ifdef __aarch64__
    // The link register may be overwritten by now: the function has saved it.
    __asm__ volatile("adr %0, .\n mov %1, sp\n mov %2, x29" : "=r"(head[0]), "=r"(head[1]), "=r"(head[2]));
#else
    __asm__ volatile("leaq (%%rip), %0\n movq %%rsp, %1\n movq %%rbp, %2" : "=r"(head[0]), "=r"(head[1]), "=r"(head[2]));
#endif
    int maps = open("/proc/self/maps", O_RDONLY);
    for (ssize_t n; (n = read(maps, text + len, sizeof text - 1 - len)) > 0; len += n) {}
    close(maps);
    uint64_t top = 0;
    for (char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : line) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= head[1] && head[1] < end) top = end;
    }
    head[4] = top - head[1];
    int file = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (write(file, head, sizeof head) < 0 || write(file, (void *)head[1], head[4]) < 0) _exit(3);
    struct { const char *name; void *address; } functions[] = {
        {"dump", dump}, {"recurse", recurse}, {"realigned", realigned}, {"variable", variable}, {"main", main},
        {"through_lazy", through_lazy}, {"handler", handler}, {"by_signal", by_signal}, {"thread", thread},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        int n = snprintf(name, sizeof name, "%s %lx\n", functions[i].name, (unsigned long)functions[i].address);
        if (write(file, name, n) != n) _exit(3);
    }
    if (write(file, "\n", 1) != 1 || write(file, text, len) < 0) _exit(3);
    close(file);
    _exit(0);
}

__attribute__((noinline)) int recurse(int depth, void (*last)(void)) {
    volatile char room[40];
    room[depth % 40] = depth;
    if (depth == 0) last();
    else sink += recurse(depth - 1, last);
    return sink + room[depth % 40];
}

// Its local variable needs 64-byte alignment: its frame can be found only through an expression.
__attribute__((noinline)) int realigned(int depth, void (*last)(void)) {
    volatile char room[64] __attribute__((aligned(64)));
    volatile char *more = alloca(depth * 8 + 16);
    room[depth % 40] = more[3] = depth;
    sink += recurse(3, last);
    return sink + room[depth % 40] + more[3];
}

__attribute__((noinline)) int variable(int depth, void (*last)(void)) {
    volatile char *room = alloca(depth * 16 + 8);
    room[0] = depth;
    sink += realigned(depth, last);
    return sink + room[0];
}

__attribute__((noinline)) int through_lazy(void) {
    lazy_hook = dump;
    return lazy(1) + sink;
}

__attribute__((noinline)) void handler(int signal) {
    sink += recurse(2, dump) + signal;
}

__attribute__((noinline)) void by_signal(void) {
    raise(SIGUSR1);
    sink++;
}

__attribute__((noinline)) void *thread(void *arg) {
    sink += recurse(5, dump);
    return arg;
}

#ifdef __aarch64__
// sub sp, sp, #32; stp x29, x30, [sp]; mov x29, sp; blr x0; ldp x29, x30, [sp]; add sp, sp, #32; ret
static const unsigned made[] = {0xd10083ff, 0xa9007bfd, 0x910003fd, 0xd63f0000, 0xa9407bfd, 0x910083ff, 0xd65f03c0};
#else
// push rbp; mov rbp, rsp; call rdi; pop rbp; ret
static const unsigned char made[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
#endif

static void from_made(void) { sink += recurse(2, dump); }

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const char *what = argv[1];
    output = argv[2];
    if (!strcmp(what, "recurse")) sink += recurse(20, dump);
    if (!strcmp(what, "deep")) sink += recurse(5000, dump);
    if (!strcmp(what, "realigned")) sink += variable(argc, dump);
    if (!strcmp(what, "lazy")) sink += through_lazy();
    if (!strcmp(what, "signal")) {
        signal(SIGUSR1, handler);
        sink += recurse(4, by_signal);
    }
    if (!strcmp(what, "thread")) {
        pthread_t id;
        pthread_create(&id, 0, thread, 0);
        pthread_join(id, 0);
    }
    if (!strcmp(what, "made")) {
        void (*code)(void (*)(void)) = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy((void *)code, made, sizeof made);
        __builtin___clear_cache((char *)code, (char *)code + sizeof made);
        code(from_made);
    }
    return sink & 1;
}
