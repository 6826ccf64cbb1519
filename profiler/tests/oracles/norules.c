// Code without unwind rules in a module that has rules for other code: assembly that keeps frame
// pointers, as builtins of JIT compilers do, and assembly that keeps none. Each function has a
// single caller, so every stack is known.
#include "spin.h"

__asm__(".text\n"
        ".globl keeps_frame_pointer\n.type keeps_frame_pointer, @function\nkeeps_frame_pointer:\n"
        "push %rbp\nmov %rsp, %rbp\nsub $32, %rsp\ncall *%rdi\nleave\nret\n.size keeps_frame_pointer, . - keeps_frame_pointer\n"
        // A loop of calls so short that samples hit every instruction of the callee.
        ".globl runs_tiny\n.type runs_tiny, @function\nruns_tiny:\n"
        "push %rbp\nmov %rsp, %rbp\n1: call tiny\ndec %rdi\njnz 1b\npop %rbp\nret\n.size runs_tiny, . - runs_tiny\n"
        ".globl tiny\n.type tiny, @function\ntiny:\n"
        "push %rbp\nmov %rsp, %rbp\nimul %rdi, %rax\npop %rbp\nret\n.size tiny, . - tiny\n"
        ".globl runs_frameless\n.type runs_frameless, @function\nruns_frameless:\n"
        "push %rbp\nmov %rsp, %rbp\nmov $1000, %esi\ncall frameless\npop %rbp\nret\n.size runs_frameless, . - runs_frameless\n"
        ".globl frameless\n.type frameless, @function\nframeless:\n"
        "2: imul %rsi, %rax\nimul %rsi, %rax\ndec %rsi\njnz 2b\nret\n.size frameless, . - frameless\n");

void keeps_frame_pointer(void (*)(void));
void runs_tiny(uint64_t);
void runs_frameless(void);

NOINLINE void has_rules(void) {
    spin_cpu_ms(400);
    __asm__ volatile("");
}

int main(void) {
    keeps_frame_pointer(has_rules);
    for (uint64_t end = thread_cpu_ns() + 400 * 1000000ull; thread_cpu_ns() < end;) runs_tiny(200000);
    for (uint64_t end = thread_cpu_ns() + 400 * 1000000ull; thread_cpu_ns() < end;)
        for (int i = 0; i < 200; i++) runs_frameless();
    return 0;
}
