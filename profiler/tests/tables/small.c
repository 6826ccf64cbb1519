// Two functions, one with a frame.
__attribute__((noinline)) int leaf(int n) { return n * 3; }
int caller(int *n) { return leaf(*n) + leaf(n[1]) * *n; }
