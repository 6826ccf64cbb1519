// A reader that waits for another thread's read-ahead: "ahead" burns 80 ms, requests the file in advance, and sets a condition; then the first
// thread reads the end of the file, whose request it did not start. Whether it waited is the kernel's count of its voluntary switches.
#include "path.h"

#define BYTES (48u << 20)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static bool is_requested;
static int fd;

static void *ahead(void *unused) {
    burn_ms(80);
    // The end first: it is what the reader waits for.
    if (posix_fadvise(fd, BYTES / 2, BYTES / 2, POSIX_FADV_WILLNEED)) skip("no read-ahead for this file system's files");
    pthread_mutex_lock(&mutex);
    is_requested = true;
    piece_ends("ahead");
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    // An earlier run may have been repeated.
    char earlier[512];
    snprintf(earlier, sizeof earlier, "%s/ahead", argv[1]);
    unlink(earlier);
    const char *path = new_file(argv[1], "ahead", BYTES);
    fd = open_cold(path);
    window_begins();
    pthread_t thread = start_thread("ahead", ahead);
    burn_ms(5);
    piece_ends("first");
    pthread_mutex_lock(&mutex);
    while (!is_requested) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    char page[4096];
    struct episode *read = begin("read");
    if (pread(fd, page, sizeof page, BYTES - 8192) != sizeof page) die("pread");
    end(read);
    piece_ends("read");
    burn_ms(5);
    window_ends("last");
    printf("{\"read\":%ld,\"start\":%lu,\"end\":%lu,\"switches\":%ld,\"file\":\"%s\"}\n", read->tid, read->start, read->end, read->switches, path);
    pthread_join(thread, 0);
    return 0;
}
