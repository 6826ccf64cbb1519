/* Functions with known names: exported and private ones, side by side. */
#include <stdio.h>

volatile int sink;

__attribute__((noinline)) int exported_first(int n) {
    for (int i = 0; i < n; i++)
        sink += i;
    return sink;
}

static __attribute__((noinline, used)) int private_middle(int n) {
    for (int i = 0; i < n; i++)
        sink += i * 3;
    return sink ^ 5;
}

__attribute__((noinline)) int exported_last(int n) {
    for (int i = 0; i < n; i++)
        sink -= i;
    return sink + private_middle(n);
}

__attribute__((noinline)) int _underscored(int n) {
    return sink * n;
}

int main(int argc, char **argv) {
    (void)argv;
    printf("%d\n", exported_first(argc) + exported_last(argc) + _underscored(argc));
    return 0;
}
