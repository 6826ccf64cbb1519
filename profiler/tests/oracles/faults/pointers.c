// A library with 256 KiB of addresses, each of which the loader has to relocate.
#define A8(x) &x, &x, &x, &x, &x, &x, &x, &x
#define A64(x) A8(x), A8(x), A8(x), A8(x), A8(x), A8(x), A8(x), A8(x)
#define A512(x) A64(x), A64(x), A64(x), A64(x), A64(x), A64(x), A64(x), A64(x)
#define A4096(x) A512(x), A512(x), A512(x), A512(x), A512(x), A512(x), A512(x), A512(x)

static const int target = 1;
__attribute__((aligned(4096))) const int *const known_pointers[8 * 4096] = {A4096(target), A4096(target), A4096(target), A4096(target),
                                                                           A4096(target), A4096(target), A4096(target), A4096(target)};
