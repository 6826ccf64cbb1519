// Sleeps 20 ms at a time.
#include "wait.h"

int main(void) {
    for (int i = 0; i < EPISODES; i++) {
        struct episode *episode = begin("sleep");
        sleep_ms(20);
        end(episode);
    }
    print_episodes();
    return 0;
}
