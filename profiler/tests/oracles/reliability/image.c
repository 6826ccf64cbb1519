// A program that is its own file system image, as AppImages are.
//
// image FILE FOLDER ARGUMENTS...: mounts a file system (FUSE) at FOLDER with FILE in it, runs FILE with ARGUMENTS,
// unmounts the file system, and waits for its server to end. Prints the results of unmounting and of waiting. Exit
// status 77: this machine has no FUSE.
#include "../onefile.h"

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    if (!mount_one(argv[1], argv[2]))
        return 77;
    pid_t server = fork();
    if (!server) {
        // The read fails once the file system is unmounted.
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
