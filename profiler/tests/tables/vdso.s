// A vdso for arm64: functions without unwind information, one every 256 bytes.
        .text
        .globl  __kernel_clock_gettime, __kernel_getrandom, __kernel_rt_sigreturn
        .type   __kernel_clock_gettime, %function
        .type   __kernel_getrandom, %function

__kernel_clock_gettime:                 // a leaf
        bti     c                       // byte 0
        mov     x8, 113
        svc     0                       // 8
        ret
        .size   __kernel_clock_gettime, . - __kernel_clock_gettime

        .org    0x100
__kernel_getrandom:                     // with a frame
        paciasp                         // byte 0
        stp     x29, x30, [sp, -128]!   // 4
        mov     x29, sp                 // 8
        stp     x19, x20, [sp, 16]
        bl      __kernel_clock_gettime
        ldp     x19, x20, [sp, 16]
        ldp     x29, x30, [sp], 128     // 24
        autiasp                         // 28
        ret
        .size   __kernel_getrandom, . - __kernel_getrandom

        .org    0x1fc
        nop                             // unwinders look up the byte before a return address
__kernel_rt_sigreturn:
        mov     x8, 139
        svc     0
        .size   __kernel_rt_sigreturn, . - __kernel_rt_sigreturn
