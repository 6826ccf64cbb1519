//! What the functions on stacks say, in the tables of a recording.

use crate::reasons::{is_signal, refined};
use crate::{Frame, FrameId, FrameName, Location, ModuleId, SourceFrame, StackId, StackNode, Tables};
use WaitReason::{Condition, Lock, Poll};
use base::addr::{KernelOffset, Svma};

use crate::WaitReason;

/// A stack of these functions, outermost first; those of the kernel begin with a bar, which is all that is left of them
/// if they have no names.
fn stack_of(functions: &[&str]) -> (Tables, Option<StackId>) {
    let mut tables = Tables::default();
    let module = ModuleId(0);
    for (number, function) in (0_u32..).zip(functions) {
        let of_kernel = function.strip_prefix('|');
        let location = match of_kernel {
            Some(_) => Location::Kernel {
                module,
                offset: KernelOffset(1),
            },
            None => Location::Module {
                module,
                svma: Svma(u64::from(number)),
            },
        };
        tables.frames.push(Frame {
            location,
            is_return_address: true,
        });
        let parent = number.checked_sub(1).map(StackId::new);
        tables.stacks.push(StackNode {
            parent,
            frame: FrameId(number),
        });
        let function = of_kernel.unwrap_or(function);
        let chain = SourceFrame {
            function: function.into(),
            ..SourceFrame::default()
        };
        let name = FrameName {
            symbol: function.into(),
            inline_chain: vec![chain],
            ..FrameName::default()
        };
        tables.names.insert(FrameId(number), name);
    }
    let innermost = u32::try_from(functions.len()).unwrap().checked_sub(1).map(StackId::new);
    (tables, innermost)
}

#[test]
fn program_functions_distinguish_futexes() {
    let refined_by = |functions: &[&str], reason| {
        let (tables, stack) = stack_of(functions);
        refined(&tables, stack, reason)
    };
    let parking = ["main", "parking_lot::raw_mutex::RawMutex::lock_slow", "syscall", "|"];
    assert_eq!(refined_by(&parking, Condition), Lock);
    let condition = ["main", "__pthread_cond_wait", "__futex_abstimed_wait_common", "|", "|"];
    assert_eq!(refined_by(&condition, Lock), Condition);
    let taken_again = [
        "__pthread_cond_wait",
        "__pthread_mutex_cond_lock",
        "__lll_lock_wait",
        "|",
    ];
    assert_eq!(refined_by(&taken_again, Lock), Lock);
    assert_eq!(refined_by(&["main", "odd", "|"], Condition), Condition);
    assert_eq!(
        refined_by(&["pthread_mutex_lock"], Poll),
        Poll,
        "only futexes are looked at"
    );
    assert_eq!(refined_by(&[], Lock), Lock);
}

#[test]
fn a_signal_is_found_on_the_wakers_stack() {
    let by_signal = |stack: &str| {
        let functions: Vec<&str> = stack.split(" < ").collect::<Vec<_>>().into_iter().rev().collect();
        let (tables, waker) = stack_of(&functions);
        is_signal(&tables, waker.unwrap())
    };
    assert!(by_signal(
        "|try_to_wake_up < |complete_signal < |__send_signal_locked < |do_send_sig_info < |__x64_sys_kill < main"
    ));
    assert!(by_signal(
        "|try_to_wake_up < |zap_other_threads < |do_group_exit < |__x64_sys_exit_group < __GI__exit < main"
    ));
    assert!(!by_signal(
        "|try_to_wake_up < |wake_up_q < |futex_wake < |do_futex < |__x64_sys_futex < unlock < main"
    ));
    // A thread that ends releases what it kept.
    let robust = "|wake_up_q < |futex_wake < |handle_futex_death < |exit_robust_list < |futex_exit_release < |do_exit < |do_group_exit";
    assert!(!by_signal(robust));
    // Without the kernel's names, the function that made the system call decides.
    assert!(by_signal("| < | < __GI_kill < main"));
    assert!(!by_signal("| < __lll_lock_wake < kill"));
    assert!(!by_signal("|wake_up_q < |futex_wake < kill"));
}
