//! Random waits and block requests.

use profiler::addr::{KernelOffset, Timestamp};
use profiler::event::{
    Bio, Call, CallPath, Device, DeviceName, Event, FileName, KernelLock, LockId, OpenFile, Request, StackAhead,
    Stacks, Wait, Waker,
};
use proptest::prelude::*;

use super::{at, file, stacks, text};

/// Waits, and the records that precede them.
pub fn waits() -> impl Strategy<Value = Event<'static>> {
    let open = (file(), any::<(u32, u32, u64)>()).prop_map(|(file, (mode, magic, name))| OpenFile {
        file,
        mode,
        magic,
        name: name % 3,
    });
    let call = (any::<(u32, [u64; 3])>(), prop::option::of(open));
    let call = call.prop_map(|((number, arguments), file)| Call {
        number,
        arguments,
        file,
    });
    let waker = any::<(u64, u32, u32, u64, u64)>().prop_map(|(time, pid, tid, user, kernel)| Waker {
        time: Timestamp(time),
        pid,
        tid,
        user,
        kernel,
    });
    let lock =
        any::<(bool, u64, u32, Option<(u32, u32)>)>().prop_map(|(is_static, number, flags, holder)| KernelLock {
            id: if is_static {
                LockId::Static(KernelOffset(number))
            } else {
                LockId::Number(number)
            },
            flags,
            holder,
        });
    let times = any::<(u64, u64, u64, u64, u64)>();
    let what = (
        any::<(u16, u32, u32)>(),
        1..=u32::MAX,
        prop::option::of(call),
        prop::option::of(waker),
        (prop::option::of(lock), any::<Option<i32>>()),
    );
    // A wait has no copy of the stack.
    let stacks_of_wait = stacks().prop_map(|stacks| Stacks {
        copy: std::borrow::Cow::default(),
        ..stacks
    });
    let wait = (at(), times, what, stacks_of_wait).prop_map(
        |(
            at,
            (out, end, off, queued, longest),
            ((cpu, state, flags), count, call, waker, (lock, priority)),
            stacks,
        )| {
            Event::Wait(Wait {
                at,
                cpu,
                out: Timestamp(out),
                end: Timestamp(end),
                off,
                queued,
                longest,
                count,
                state,
                flags,
                call,
                waker,
                lock,
                priority,
                stacks,
            })
        },
    );
    let ahead = (at(), stacks()).prop_map(|(at, stacks)| Event::StackAhead(StackAhead { at, stacks }));
    let path = (at(), text()).prop_map(|(at, path)| Event::CallPath(CallPath { at, path }));
    let name =
        (file(), 0..3_u64, text()).prop_map(|(file, number, path)| Event::FileName(FileName { file, number, path }));
    prop_oneof![4 => wait, 2 => ahead, 1 => path, 1 => name]
}

fn device() -> impl Strategy<Value = Device> {
    any::<(u32, u32)>().prop_map(|(major, minor)| Device { major, minor })
}

/// Bios and requests.
pub fn block() -> impl Strategy<Value = Event<'static>> {
    let what = (
        text(),
        device(),
        any::<(u64, u32, u32, u32, u64, Option<u32>)>(),
        prop::option::of((file(), any::<u64>())),
    );
    let bio = (at(), what).prop_map(
        |(at, (comm, device, (sector, bytes, operation, flags, page, call), file))| {
            Event::Bio(Bio {
                at,
                comm,
                device,
                sector,
                bytes,
                operation,
                flags,
                file: file.map(|(file, _)| file),
                name: file.map_or(0, |(_, name)| name),
                page,
                call,
            })
        },
    );
    let times = any::<(Option<u64>, Option<u64>, Option<u64>)>();
    let numbers = any::<(u64, u32, u32, i32, u32, u32, u32, u32)>();
    let request = (at(), device(), times, numbers).prop_map(
        |(
            at,
            device,
            (queued, inserted, issued),
            (sector, bytes, operation, error, requeues, merges, depth, flags),
        )| {
            Event::Request(Request {
                at,
                device,
                sector,
                bytes,
                operation,
                queued: queued.map(Timestamp),
                inserted: inserted.map(Timestamp),
                issued: issued.map(Timestamp),
                error,
                requeues,
                merges,
                depth,
                flags,
            })
        },
    );
    let numbers = || prop::collection::vec(any::<u64>(), 0..20);
    let name = (device(), ".{0,20}", numbers(), numbers()).prop_map(|(device, name, before, after)| {
        Event::DeviceName(DeviceName {
            device,
            name,
            before,
            after,
        })
    });
    prop_oneof![4 => bio, 4 => request, 1 => name]
}
