// A function with an address that is chosen at its first call: the choice runs below the dynamic linker's lazy binder.
void (*lazy_hook)(void);

static int chosen(int n) { return n + 1; }

static int (*choose(void))(int) {
    if (lazy_hook) lazy_hook();
    return chosen;
}

int lazy(int n) __attribute__((ifunc("choose")));
