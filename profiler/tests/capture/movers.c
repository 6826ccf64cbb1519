// movers PHASES FOLDER...: six members, three groups of two, go from one of the cgroups to another in each phase, and end outside all.
// movers asleep PHASES FOLDER...: two members, which the first process moves while they sleep.
//
// In each phase a member touches pages at an address of its own, sleeps SLEEPS times, is answered ECHOES times by a process outside all
// cgroups, computes for SPIN ns, and has a child that touches a page and sleeps once. It notes the clock, its CPU time and the kernel's
// count of its switches before and after each of these. Everything is printed at the end, as lines of a word and numbers: the member, the
// phase, and what `print` shows.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { MEMBERS = 6, MOST = 80, SLEEPS = 2, ECHOES = 2, SPIN = 1000000, OUTSIDE = -1 };
struct stamp { int64_t clock, cpu, voluntary, involuntary; };
struct wait { struct stamp from, to; };
// `before` and `after`: around what begins the phase, by the member itself or, of one that sleeps, around its read.
struct phase {
    int folder, pages, child;
    char *at;
    struct stamp before, after, child_born, child_last;
    struct wait sleeps[SLEEPS], echoes[ECHOES];
};
struct member {
    int pid, echo, ask[2], answer[2];
    struct phase phases[MOST + 1];
};
static struct member *members;
static int phases;

static int64_t ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}
static struct stamp once(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (struct stamp){ns(CLOCK_MONOTONIC), ns(CLOCK_THREAD_CPUTIME_ID), usage.ru_nvcsw, usage.ru_nivcsw};
}
// One without a switch in between, so that its clock divides the switches as its counts do.
static struct stamp stamp(void) {
    for (;;) {
        struct stamp first = once(), second = once();
        if (first.involuntary == second.involuntary) return first;
    }
}
static void fail(const char *what) {
    perror(what);
    _exit(5);
}
static void move(int pid, const char *folder) {
    char path[4096], text[20];
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    int file = open(path, O_WRONLY), len = sprintf(text, "%d", pid);
    if (file < 0 || write(file, text, len) != len) fail(path);
    close(file);
}
static void touch(char *at, int pages) {
    char *memory = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != at) fail("mmap");
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    for (int i = 0; i < pages; i++) memory[i * PAGE] = 1;
    munmap(memory, pages * PAGE);
}
static void rest(struct wait *wait) {
    struct timespec time = {0, 200000};
    wait->from = stamp();
    nanosleep(&time, 0);
    wait->to = stamp();
}
static void ask(struct member *self, struct wait *wait) {
    char byte = 1;
    wait->from = stamp();
    if (write(self->ask[1], &byte, 1) != 1 || read(self->answer[0], &byte, 1) != 1) fail("pipe");
    wait->to = stamp();
}
static void echo(struct member *of) {
    char byte;
    close(of->ask[1]);
    while (read(of->ask[0], &byte, 1) == 1) {
        usleep(100);
        if (write(of->answer[1], &byte, 1) != 1) break;
    }
    _exit(0);
}
static void have_child(struct phase *phase) {
    int child = fork();
    if (child == 0) {
        struct wait unused;
        phase->child_born = stamp();
        touch(phase->at + 64 * PAGE, 1);
        rest(&unused);
        phase->child_last = stamp();
        _exit(0);
    }
    phase->child = child;
    waitpid(child, 0, 0);
}
static void work(struct member *self, struct phase *phase) {
    touch(phase->at, phase->pages);
    for (int i = 0; i < SLEEPS; i++) rest(&phase->sleeps[i]);
    for (int i = 0; i < ECHOES; i++) ask(self, &phase->echoes[i]);
    int64_t until = ns(CLOCK_THREAD_CPUTIME_ID) + SPIN;
    while (ns(CLOCK_THREAD_CPUTIME_ID) < until) {}
    have_child(phase);
}
static void plan(int number, int folders) {
    // Both members of a group go the same way.
    uint32_t random = 7 + number % 3;
    for (int i = 0; i < phases; i++) {
        random = random * 1664525 + 1013904223;
        struct phase *phase = &members[number].phases[i];
        phase->folder = random >> 16 & 0xff;
        phase->folder %= folders;
        phase->pages = 1 + (random >> 24) % 7;
        phase->at = (char *)(0x100000000000 + (number * (MOST + 1LL) + i) * 0x1000000);
    }
    members[number].phases[phases].folder = OUTSIDE;
}
static void go(struct member *self, char **folders, const char *outside) {
    for (int i = 0; i <= phases; i++) {
        struct phase *phase = &self->phases[i];
        phase->before = stamp();
        move(getpid(), phase->folder == OUTSIDE ? outside : folders[phase->folder]);
        phase->after = stamp();
        if (i < phases) work(self, phase);
    }
    _exit(0);
}
static void be_moved(struct member *self, const int *start, const int *done) {
    char byte;
    for (int i = 0; i <= phases; i++) {
        struct phase *phase = &self->phases[i];
        phase->before = stamp();
        if (read(start[0], &byte, 1) != 1) fail("start");
        phase->after = stamp();
        if (i < phases) work(self, phase);
        if (write(done[1], &byte, 1) != 1) fail("done");
    }
    _exit(0);
}
static void until_asleep(int pid) {
    char path[40], line[300];
    sprintf(path, "/proc/%d/stat", pid);
    do {
        usleep(500);
        int file = open(path, O_RDONLY);
        ssize_t len = read(file, line, sizeof line - 1);
        close(file);
        line[len > 0 ? len : 0] = 0;
    } while (!strstr(line, ") S "));
}
static void move_sleepers(int count, char **folders, const char *outside) {
    int start[2][2], done[2][2];
    char byte = 1;
    for (int i = 0; i < count; i++) {
        if (pipe(start[i]) || pipe(done[i])) fail("pipe");
        int pid = fork();
        if (pid == 0) be_moved(&members[i], start[i], done[i]);
        members[i].pid = pid;
    }
    for (int phase = 0; phase <= phases; phase++) {
        for (int i = 0; i < count; i++) {
            int folder = members[i].phases[phase].folder;
            until_asleep(members[i].pid);
            move(members[i].pid, folder == OUTSIDE ? outside : folders[folder]);
            if (write(start[i][1], &byte, 1) != 1) fail("start");
        }
        for (int i = 0; i < count; i++)
            if (read(done[i][0], &byte, 1) != 1) fail("done");
    }
}
static void print_stamp(struct stamp one) {
    printf(" %ld %ld %ld %ld", one.clock, one.cpu, one.voluntary, one.involuntary);
}
static void print(const struct member *one) {
    for (int i = 0; i <= phases; i++) {
        const struct phase *phase = &one->phases[i];
        printf("phase %d %d %d %ld %d", one->pid, i, phase->folder, (long)phase->at, phase->pages);
        print_stamp(phase->before), print_stamp(phase->after), puts("");
        if (i == phases) break;
        printf("child %d %d %d", one->pid, i, phase->child);
        print_stamp(phase->child_born), print_stamp(phase->child_last), puts("");
        for (int j = 0; j < SLEEPS + ECHOES; j++) {
            const struct wait *wait = j < SLEEPS ? &phase->sleeps[j] : &phase->echoes[j - SLEEPS];
            printf("wait %d %d %d", one->pid, i, j < SLEEPS ? 0 : one->echo);
            print_stamp(wait->from), print_stamp(wait->to), puts("");
        }
    }
}
int main(int words, char **word) {
    int asleep = !strcmp(word[1], "asleep"), count = asleep ? 2 : MEMBERS;
    char **folders = word + 2 + asleep;
    // The last folder is outside.
    int most = words - 3 - asleep;
    phases = atoi(word[1 + asleep]);
    members = mmap(0, count * sizeof *members, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (members == MAP_FAILED || phases > MOST) fail("members");
    for (int i = 0; i < count; i++) {
        plan(i, most);
        if (pipe(members[i].ask) || pipe(members[i].answer)) fail("pipe");
        int pid = fork(); // the child must not write to the shared memory
        if (pid == 0) echo(&members[i]);
        members[i].echo = pid;
    }
    if (asleep) move_sleepers(count, folders, folders[most]);
    for (int i = 0; !asleep && i < count; i++) {
        int pid = fork();
        if (pid == 0) go(&members[i], folders, folders[most]);
        members[i].pid = pid;
    }
    // The answering processes end with the last writer.
    for (int i = 0; i < count; i++) waitpid(members[i].pid, 0, 0);
    for (int i = 0; i < count; i++) close(members[i].ask[1]);
    while (wait(0) > 0) {}
    for (int i = 0; i < count; i++) print(&members[i]);
    return 0;
}
