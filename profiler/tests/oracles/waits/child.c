// Waits for a child that sleeps 20 ms and exits.
#include "wait.h"
#include <sys/wait.h>

int main(void) {
    for (int i = 0; i < EPISODES; i++) {
        pid_t child = fork();
        if (child < 0) die("fork");
        if (child == 0) {
            sleep_ms(20);
            _exit(0);
        }
        struct episode *episode = begin("child");
        if (waitpid(child, 0, 0) != child) die("waitpid");
        end(episode);
        episode->waker = child;
    }
    print_episodes();
    return 0;
}
