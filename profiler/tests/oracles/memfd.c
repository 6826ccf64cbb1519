// memfd BURN: copies a program into memory and becomes it; its code has no path in any file system.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv, char **env) {
    if (argc < 2) return 2;
    int from = open(argv[1], O_RDONLY | O_CLOEXEC), to = memfd_create("no file at all", MFD_CLOEXEC);
    struct stat st;
    if (from < 0 || to < 0 || fstat(from, &st)) return 3;
    for (off_t done = 0; done < st.st_size;) {
        ssize_t n = sendfile(to, from, &done, (size_t)(st.st_size - done));
        if (n <= 0) return 3;
    }
    char *args[] = {"from-memory", "500", 0};
    fexecve(to, args, env);
    return 4;
}
