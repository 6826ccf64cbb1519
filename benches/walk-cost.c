// walk-cost DEPTH SECONDS: recurses to the depth, and spins there.
#include <stdlib.h>
#include <time.h>

#ifndef ROOM
#define ROOM 48
#endif

volatile long sink;

__attribute__((noinline)) void spin(double seconds)
{
    struct timespec time;
    do {
        for (int i = 0; i < 100000; i++)
            sink += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    } while (time.tv_sec + time.tv_nsec / 1e9 < seconds);
}

__attribute__((noinline)) int down(int depth, double seconds)
{
    volatile char room[ROOM];
    room[0] = depth;
    if (depth == 0)
        spin(seconds);
    else
        down(depth - 1, seconds);
    sink += room[0];
    return depth + 1;
}

int main(int count, char **arguments)
{
    if (count > 2)
        down(atoi(arguments[1]), atof(arguments[2]));
    return 0;
}
