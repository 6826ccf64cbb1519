// cutter FILE ROUNDS: creates copies of FILE in the working directory, each with a different build
// id, maps each as code, and truncates it to one page a moment later.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    int source = open(argv[1], O_RDONLY);
    struct stat whole;
    if (source < 0 || fstat(source, &whole))
        return 1;
    char *bytes = malloc(whole.st_size);
    if (pread(source, bytes, whole.st_size, 0) != whole.st_size)
        return 1;
    const char note[] = "\4\0\0\0\24\0\0\0\3\0\0\0GNU"; // elf.h: name and description of 4 and 20 bytes, NT_GNU_BUILD_ID
    char *id = memmem(bytes, whole.st_size, note, sizeof note);
    if (!id)
        return 1;
    for (int round = 0; round < atoi(argv[2]); round++) {
        char name[32];
        memcpy(id + sizeof note, &round, sizeof round);
        snprintf(name, sizeof name, "cut-%d.so", round);
        int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0755);
        if (file < 0 || write(file, bytes, whole.st_size) != whole.st_size)
            return 1;
        void *code = mmap(NULL, whole.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        if (code == MAP_FAILED)
            return 1;
        usleep(2000 << round % 8); // tables are built meanwhile, whether the machine is fast or slow
        if (ftruncate(file, 4096))
            return 1;
        usleep(200000); // prevents each from waiting for the previous one
        munmap(code, whole.st_size);
        close(file);
    }
    return 0;
}
