// Checks, without ngmi, whether the kernel accepts an fentry program: loads one of two instructions for handle_mm_fault, without attaching it.
//
// Exits with status 0 if it does; otherwise prints why not and exits with status 1.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct header {
    uint16_t magic;
    uint8_t version, flags;
    uint32_t length, type_offset, type_length, string_offset, string_length;
};
struct type {
    uint32_t name, info, size_or_type;
};

// The number of bytes that follow a type of this kind (Documentation/bpf/btf.rst).
static size_t tail(uint32_t kind, uint32_t count) {
    switch (kind) {
    case 1: case 14: case 17: return 4; // int, variable, declaration tag
    case 3: return 12;                  // array
    case 4: case 5: case 15: case 19: return 12 * (size_t)count; // struct, union, section, enum64
    case 6: case 13: return 8 * (size_t)count; // enum, prototype
    default: return 0;
    }
}

// The id of the function in the kernel's BTF types, or 0 if it has none.
static uint32_t find(const char *btf, const char *function) {
    const struct header *header = (const struct header *)btf;
    const char *types = btf + header->length + header->type_offset, *strings = btf + header->length + header->string_offset;
    uint32_t id = 1;
    for (const char *at = types; at < types + header->type_length; id++) {
        const struct type *type = (const struct type *)at;
        uint32_t kind = type->info >> 24 & 0x1f;
        if (kind == 12 && !strcmp(strings + type->name, function)) return id;
        at += sizeof *type + tail(kind, type->info & 0xffff);
    }
    return 0;
}

static char *read_all(const char *path) {
    struct stat about;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &about)) return 0;
    char *bytes = malloc((size_t)about.st_size);
    for (off_t done = 0; done < about.st_size;) {
        ssize_t some = read(fd, bytes + done, (size_t)(about.st_size - done));
        if (some <= 0) return 0;
        done += some;
    }
    return bytes;
}

int main(void) {
    char *btf = read_all("/sys/kernel/btf/vmlinux");
    uint32_t function = btf ? find(btf, "handle_mm_fault") : 0;
    if (!function) {
        puts("the kernel's types do not name handle_mm_fault");
        return 1;
    }
    struct bpf_insn program[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr attributes = {.prog_type = BPF_PROG_TYPE_TRACING, .expected_attach_type = BPF_TRACE_FENTRY, .attach_btf_id = function,
                                 .insn_cnt = 2, .insns = (uint64_t)(size_t)program, .license = (uint64_t)(size_t)"GPL"};
    if (syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes) < 0) {
        printf("the kernel refuses fentry programs: %s\n", strerror(errno));
        return 1;
    }
    return 0;
}
