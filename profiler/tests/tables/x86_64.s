# Functions with known rules, one every 256 bytes.
        .text
        .macro  function number
        .org    \number * 0x100, 0xcc
        .endm

        function 0                      # a leaf
        .cfi_startproc
        xor     %eax, %eax
        ret
        .cfi_endproc

        function 1                      # pushes, a frame, pops
        .cfi_startproc
        push    %rbp                    # byte 0
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        push    %rbx                    # 1
        .cfi_def_cfa_offset 24
        .cfi_offset %rbx, -24
        sub     $0x18, %rsp             # 2
        .cfi_def_cfa_offset 48
        add     $0x18, %rsp             # 6
        .cfi_def_cfa_offset 24
        pop     %rbx                    # 10
        .cfi_def_cfa_offset 16
        pop     %rbp                    # 11
        .cfi_def_cfa_offset 8
        ret                             # 12
        .cfi_endproc

        function 2                      # alloca with a frame pointer
        .cfi_startproc
        push    %rbp                    # 0
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        mov     %rsp, %rbp              # 1
        .cfi_def_cfa_register %rbp
        sub     %rdi, %rsp              # 4
        leave                           # 7
        .cfi_def_cfa %rsp, 8
        .cfi_restore %rbp
        ret                             # 8
        .cfi_endproc

        function 3                      # gcc's realigned stack: CFA = *(rbp - 8), rbp at rbp
        .cfi_startproc
        lea     8(%rsp), %r10           # 0
        .cfi_def_cfa %r10, 0
        and     $-32, %rsp              # 5
        push    -8(%r10)                # 9
        push    %rbp                    # 13
        mov     %rsp, %rbp              # 14
        .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00
        push    %r10                    # 17
        .cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06
        nop                             # 19
        .cfi_endproc

        function 4                      # OpenSSL's assembler: CFA = *(rsp + 152) + 8
        .cfi_startproc
        .cfi_escape 0x0f, 0x06, 0x77, 0x98, 0x01, 0x06, 0x23, 0x08
        nop
        .cfi_endproc

        function 5                      # no unwind information
        nop
        ret

        function 6                      # has no caller
        .cfi_startproc
        .cfi_undefined %rip
        nop
        .cfi_endproc

        function 7                      # the linker's stubs: lazy, and with indirect branch tracking
        .cfi_startproc
        .cfi_escape 0x0f, 0x0b, 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22
        nop                             # 0
        .cfi_escape 0x0f, 0x0b, 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x39, 0x2a, 0x33, 0x24, 0x22
        nop                             # 1
        .cfi_endproc

        function 8                      # rules that a row cannot represent
        .cfi_startproc
        .cfi_def_cfa_offset 12
        nop                             # 0: not a multiple of a word
        .cfi_def_cfa_offset 16 * 65536
        nop                             # 1: too far
        .cfi_def_cfa %r11, 8
        nop                             # 2: another register
        .cfi_escape 0x0f, 0x02, 0x77, 0x08
        nop                             # 3: an unknown expression
        .cfi_def_cfa %rsp, 8 * 32767
        nop                             # 4: just near enough
        .cfi_def_cfa_offset 8 * 32768
        nop                             # 5: too far in words
        .cfi_def_cfa_offset 16 * 65535
        nop                             # 6: just near enough in units of 16
        .cfi_def_cfa_offset 8 * 32769
        nop                             # 7: not a multiple of 16
        .cfi_def_cfa_offset 16
        .cfi_register %rbp, %rax
        nop                             # 8: the frame pointer in another register
        .cfi_endproc

        function 9                      # glibc's lazy binder: CFA = rbx + 32
        .cfi_startproc
        push    %rbx                    # 0
        .cfi_def_cfa_offset 32
        .cfi_offset %rbx, -32
        mov     %rsp, %rbx              # 1
        .cfi_def_cfa_register %rbx
        and     $-64, %rsp              # 4
        .cfi_endproc

        function 10                     # rbp saved where the stack pointer says
        .cfi_startproc
        .cfi_escape 0x10, 0x06, 0x02, 0x77, 0x10
        nop
        .cfi_endproc

        function 11                     # 13 bytes, then padding, then a function with the same rules
        .cfi_startproc
        .nops   13
        .cfi_endproc
        .p2align 4, 0x90
        .cfi_startproc
        ret
        .cfi_endproc

        function 12                     # marked as a signal frame, but not the kernel's
        .cfi_startproc
        .cfi_signal_frame
        nop
        .cfi_endproc
        function 13
