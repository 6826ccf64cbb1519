// Four threads mount a tree of mounts elsewhere, and unmount it, in a mount namespace of their own: each of these calls
// wants a lock for writing that is a variable of the kernel, "namespace_sem" (fs/namespace.c), for as long as it copies
// the tree.
#include "path.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define THREADS 4
#define MOUNTS 40
#define TREE 200

static pthread_barrier_t ready;

static void *run(void *folder) {
    pthread_barrier_wait(&ready);
    for (int i = 0; i < MOUNTS; i++)
        if (mount("tree", folder, 0, MS_BIND | MS_REC, 0) || umount2(folder, MNT_DETACH)) die("mount");
    return 0;
}

int main(void) {
    static char folders[THREADS][16];
    char inner[32];
    if (unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0)) skip("no mount namespace");
    for (int i = 0; i < THREADS; i++) {
        snprintf(folders[i], sizeof folders[i], "mount%d", i);
        if (mkdir(folders[i], 0700)) die("mkdir");
    }
    if (mkdir("tree", 0700) || mount("none", "tree", "tmpfs", 0, 0)) die("tree");
    for (int i = 0; i < TREE; i++) {
        snprintf(inner, sizeof inner, "tree/%d", i);
        if (mkdir(inner, 0700) || mount("none", inner, "tmpfs", 0, 0)) die("inner");
    }
    pthread_barrier_init(&ready, 0, THREADS);
    window_begins();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, run, folders[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    window_ends("last");
    return 0;
}
