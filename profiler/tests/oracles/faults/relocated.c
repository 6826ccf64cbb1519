// Opens a library and prints how much of it is dirty afterwards, according to smaps.
//
// relocated LIBRARY
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 2 || !dlopen(argv[1], RTLD_NOW)) return 2;
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[1024];
    unsigned long start, end, dirty = 0, kilobytes;
    int ours = 0;
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) ours = strstr(line, argv[1]) != 0;
        else if (ours && sscanf(line, "Private_Dirty: %lu", &kilobytes) == 1) dirty += kilobytes * 1024;
    }
    printf("{\"says\":{\"pid\":%d,\"private_dirty\":%lu}}\n", getpid(), dirty);
    return 0;
}
