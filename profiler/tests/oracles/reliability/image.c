// A program that is its own file system image, as AppImages are.
//
// image FILE FOLDER ARGUMENTS...: mounts a file system (FUSE) at FOLDER with FILE in it, runs that with ARGUMENTS, unmounts it, and waits for its
// server's end. Prints what unmounting came to. Exit status 77: this machine has no FUSE.
#include "../onefile.h"

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    if (!mount_one(argv[1], argv[2]))
        return 77;
    pid_t server = fork();
    if (!server) {
        // Without a mount there are no more requests.
        while (read(device, &request, sizeof request) > 0 || errno != ENODEV)
            answer(&request.header);
        _exit(0);
    }
    close(device);
    int status = run_one(argv[2], argv + 2);
    int unmounted = umount2(argv[2], 0);
    printf("unmounted=%d\n", unmounted ? errno : 0);
    fflush(stdout);
    if (unmounted)
        umount2(argv[2], MNT_DETACH);
    int ended;
    waitpid(server, &ended, 0);
    printf("server=%d\n", ended);
    return status;
}
