// Two functions, one with a frame; with EXTERNAL, the other one is defined elsewhere.
#ifdef EXTERNAL
int leaf(int n);
#else
__attribute__((noinline)) int leaf(int n) { return n * 3; }
#endif
int caller(int *n) { return leaf(*n) + leaf(n[1]) * *n; }
