// Functions with known rules, one every 256 bytes.
        .text
        .macro  function number
        .org    \number * 0x100
        .endm

        function 0                      // a leaf
        .cfi_startproc
        mov     x0, 0
        ret
        .cfi_endproc

        function 1                      // a signed return address and a frame
        .cfi_startproc
        paciasp                         // byte 0
        .cfi_negate_ra_state
        stp     x29, x30, [sp, -32]!    // 4
        .cfi_def_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        mov     x29, sp                 // 8
        .cfi_def_cfa_register 29
        nop                             // 12
        ldp     x29, x30, [sp], 32      // 16
        .cfi_restore 30
        .cfi_restore 29
        .cfi_def_cfa 31, 0
        autiasp                         // 20
        .cfi_negate_ra_state
        ret                             // 24
        .cfi_endproc

        function 2                      // a large frame: both registers at its bottom
        .cfi_startproc
        .cfi_def_cfa_offset 4096
        .cfi_offset 29, -4096
        .cfi_offset 30, -4088
        nop
        .cfi_endproc

        function 3                      // the kernel's signal frame (arch/arm64/kernel/vdso/sigreturn.S)
        .cfi_startproc
        .cfi_signal_frame
        .cfi_def_cfa 29, 0
        .cfi_offset 29, 0
        .cfi_offset 30, 8
        nop
        .cfi_endproc

        function 4                      // has no caller
        .cfi_startproc
        .cfi_undefined 30
        nop
        .cfi_endproc

        function 5                      // a large frame: the return address alone at its bottom
        .cfi_startproc
        .cfi_def_cfa_offset 4096
        .cfi_offset 30, -4096
        nop
        .cfi_endproc

        function 6                      // both at the bottom of a frame that is too large for words
        .cfi_startproc
        .cfi_def_cfa_offset 480016
        .cfi_offset 29, -480016
        .cfi_offset 30, -480008
        nop
        .cfi_endproc

        function 7                      // a large frame: the registers apart
        .cfi_startproc
        .cfi_def_cfa_offset 4096
        .cfi_offset 29, -4096
        .cfi_offset 30, -4000
        nop
        .cfi_endproc
        function 8
