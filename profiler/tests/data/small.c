// The source of the recording small.log: `ngmi record -F 500 --keep-events small.log -- /tmp/demo/work twice`, built with gcc -O2 -g.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>
volatile unsigned long sink;
__attribute__((noinline)) void inner(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void three_parts(void) { inner(60000000); sink++; }
__attribute__((noinline)) void one_part(void) { inner(20000000); sink++; }
static void *worker(void *arg) { one_part(); return arg; }
int main(int argc, char **argv) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    pthread_setname_np(thread, "one part");
    three_parts();
    pthread_join(thread, 0);
    if (argc > 1) { if (!fork()) execlp(argv[0], "again", (char *)0); int status; wait(&status); }
    return 3;
}
