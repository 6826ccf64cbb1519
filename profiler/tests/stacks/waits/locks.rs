//! Which lock of the kernel a wait was for.

use profiler::addr::KernelOffset;
use profiler::event::{Event, KernelLock, LockId, Wait};
use profiler::fact::{LockHolder, LockKind, WaitFact};
use profiler_common::switch::{lock, state};

use super::{born, facts, kernel, stacks, symbol, wait};

/// A wait with any lock and priority, and nothing else.
pub fn any(key: u64, number: u64, flags: u32) -> Wait {
    let lock = KernelLock {
        id: LockId::Number(number),
        flags,
        holder: (key > 3).then_some((7, flags)),
    };
    Wait {
        lock: (key > 1).then_some(lock),
        priority: Some(flags.cast_signed()),
        ..Wait::default()
    }
}

/// A wait of thread 7 in the functions `schedule`, `taker` and `caller`, after it noted this lock.
fn noted(taker: &str, caller: &str, last: KernelLock, others: &[Event<'static>]) -> WaitFact {
    let mut events = vec![
        born(7),
        born(8),
        symbol(0x110, "schedule"),
        symbol(0x21f, taker),
        symbol(0x31f, caller),
        kernel(5, &[0x110, 0x220, 0x320]),
    ];
    events.extend(others.iter().cloned());
    events.push(Event::Wait(Wait {
        state: state::UNINTERRUPTIBLE,
        lock: Some(last),
        priority: Some(115),
        stacks: stacks(0, 5),
        ..wait(200, 300)
    }));
    facts(&events).1.remove(0)
}

fn mutex(id: LockId) -> KernelLock {
    KernelLock {
        id,
        flags: lock::MUTEX,
        holder: Some((8, 8)),
    }
}

#[test]
fn a_lock_has_its_kind_name_and_holder() {
    let variable = symbol(0x8010, "cgroup_mutex");
    let id = LockId::Static(KernelOffset(0x8010));
    let wait = noted("mutex_lock", "pipe_write", mutex(id), &[variable]);
    let found = wait.lock.unwrap();
    assert_eq!(found.kind, LockKind::Mutex);
    assert_eq!(found.label(), "cgroup_mutex+0x10");
    assert_eq!(found.wanted(), "mutex");
    let LockHolder {
        pid, tid, is_reader, ..
    } = found.holder.unwrap();
    assert_eq!((pid, tid, is_reader), (8, 8, false));
    assert!(found.holder.unwrap().thread.is_some());
    assert_eq!(wait.priority, Some(115));
}

#[test]
fn the_lock_of_an_address_space_is_its_processs() {
    let last = KernelLock {
        id: LockId::Number(3),
        flags: lock::READ | lock::OWN_MMAP | lock::HELD_BY_READERS,
        holder: Some((9, 9)),
    };
    let found = noted("rwsem_down_read_slowpath", "down_read", last, &[]).lock;
    assert!(found.is_none(), "no function outside of the lock");
    let found = noted("down_read_killable", "lock_mm_and_find_vma", last, &[])
        .lock
        .unwrap();
    assert_eq!(
        (found.label(), found.wanted()),
        ("mmap_lock".into(), "rwsem read".into())
    );
    let holder = found.holder.unwrap();
    assert!(holder.is_reader && holder.thread.is_none());
}

/// The thread waits for something else than for the lock that it wanted last.
#[test]
fn a_stack_proves_which_lock_it_is() {
    let last = mutex(LockId::Number(1));
    for (taker, caller) in [
        ("pipe_write", "vfs_write"),
        ("folio_wait_bit_common", "mutex_lock"),
        ("down_read", "x"),
    ] {
        assert_eq!(noted(taker, caller, last, &[]).lock, None, "{taker}");
    }
    let number = noted("mutex_lock", "pipe_write", last, &[]).lock.unwrap();
    assert_eq!(number.label(), "mutex #1");
    // It does not wait for itself.
    let own = KernelLock {
        holder: Some((7, 7)),
        ..last
    };
    assert_eq!(noted("mutex_lock", "pipe_write", own, &[]).lock.unwrap().holder, None);
}
