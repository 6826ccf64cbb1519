// A file system that stops answering: it holds one file and answers only while the program in it runs.
//
// standstill FILE FOLDER NOTE ARGUMENTS...: mounts a file system (FUSE) at FOLDER in a separate mount namespace, with
// FILE in it as "program", and runs it with ARGUMENTS. Then the server process (its id is in NOTE) stops answering.
// With STANDSTILL=open in the environment the server answers everything but requests to open the file once it runs.
// Exit status 77: this machine has no FUSE.
#include "onefile.h"

#include <sched.h>
#include <signal.h>

static volatile sig_atomic_t still;
static int opens, opens_once;

static void stand_still(int signal) {
    (void)signal;
    still = 1;
}

static void serve(void) {
    struct sigaction action = {.sa_handler = stand_still};
    sigaction(SIGUSR1, &action, NULL);
    alarm(300); // whatever becomes of the test
    while (!still)
        if (read(device, &request, sizeof request) > 0 &&
            !(opens_once && request.header.opcode == FUSE_OPEN && opens++))
            answer(&request.header);
    for (;;)
        if (read(device, &request, sizeof request) < 0 && errno != EINTR)
            pause(); // it takes requests, which can't be given up then
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    opens_once = getenv("STANDSTILL") != NULL;
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || !mount_one(argv[1], argv[2]))
        return 77;
    pid_t server = fork();
    if (!server) {
        setsid();
        close(0), close(1), close(2);
        serve();
    }
    FILE *note = fopen(argv[3], "w");
    fprintf(note, "%d", server);
    fclose(note);
    int status = run_one(argv[2], argv + 3);
    kill(server, SIGUSR1);
    return status;
}
