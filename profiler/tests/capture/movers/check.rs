//! Compares what was recorded of the members with their notes.

use std::collections::{BTreeMap, BTreeSet};

use profiler::event::{At, Event, TaskExit, TaskNew, Wait};
use profiler_common::Loss;
use profiler_common::switch::{WAIT_BIRTH, WAIT_PREEMPTED, WAIT_UNSEEN_START};

use super::notes::{Member, Notes, OwnWait, Phase};
use crate::harness::Recording;
use crate::page::page_size;

/// Pages that the program touches.
const PAGES: std::ops::Range<u64> = 0x1000_0000_0000..0x2000_0000_0000;
/// Where a child touches its page, from the phase's own pages on.
fn of_child() -> u64 {
    64 * page_size()
}
/// How far apart, in ns, the kernel and its tracepoint may see a switch.
const OF_A_SWITCH: u64 = 10_000;

/// A recording of the members, and their notes.
pub struct Moved {
    pub recording: Recording,
    pub notes: Notes,
    /// They were moved by another process, while they slept.
    pub asleep: bool,
}

/// Successive phases in recorded cgroups.
struct Stay<'n> {
    /// The place of the first one among the member's.
    place: usize,
    phases: &'n [Phase],
    /// The phase after them.
    next: &'n Phase,
}

impl Stay<'_> {
    fn first(&self) -> &Phase {
        &self.phases[0]
    }

    /// Whether a time is within it, or in the move that begins or ends it.
    fn may_contain(&self, time: u64) -> bool {
        (self.first().before.clock..=self.next.after.clock).contains(&time)
    }

    /// Each phase, with its place and its successor.
    fn pairs(&self) -> impl Iterator<Item = (usize, &Phase, &Phase)> {
        let ends = self.phases[1..].iter().chain([self.next]);
        let pairs = self.phases.iter().zip(ends).enumerate();
        pairs.map(|(place, (phase, next))| (self.place + place, phase, next))
    }
}

fn stays(member: &Member, belongs: impl Fn(i32) -> bool) -> Vec<Stay<'_>> {
    let phases = &member.phases;
    let mut stays = Vec::new();
    let mut place = 0;
    for (index, next) in phases.iter().enumerate() {
        if belongs(next.folder) {
            continue;
        }
        if place < index {
            let phases = &phases[place..index];
            stays.push(Stay { place, phases, next });
        }
        place = index + 1;
    }
    assert_eq!(place, phases.len(), "the last phase is outside");
    stays
}

/// What differs.
#[derive(Default)]
struct Differences {
    /// Recorded, although it does not belong.
    foreign: Vec<String>,
    /// Not recorded, or not as it was, by process and phase.
    missing: BTreeMap<(u32, usize), Vec<String>>,
    /// CPU times that differ from the kernel's, and switches that it did not show.
    disturbed: Vec<String>,
}

impl Differences {
    fn miss(&mut self, pid: u32, phase: usize, text: String) {
        self.missing.entry((pid, phase)).or_default().push(text);
    }
}

impl Moved {
    /// Compares with what the program noted. Returns what other programs on this machine may have disturbed.
    pub fn check(&self, belongs: impl Fn(i32) -> bool) -> Vec<String> {
        let mut found = Differences::default();
        let mut children = BTreeSet::new();
        for member in self.notes.members.values() {
            let stays = stays(member, &belongs);
            assert!(stays.len() > 3, "{}", stays.len());
            self.check_stays(member, &stays, &mut found);
            self.check_waits(member, &stays, &mut found);
            for stay in &stays {
                for (place, phase, _) in stay.pairs() {
                    children.insert(phase.child.pid);
                    self.check_child(member, (place, phase), &mut found);
                }
            }
        }
        self.check_faults(&belongs, &mut found);
        for event in &self.recording.events {
            let Some(at) = at(event) else { continue };
            if !self.notes.members.contains_key(&at.pid) && !children.contains(&at.pid) {
                found.foreign.push(format!("{event:?}"));
            }
        }
        assert_eq!(found.foreign, Vec::<String>::new());
        let (missing, missed) = (&found.missing, self.missed());
        assert!(missing.len() as u64 <= missed, "{missed} missed: {missing:#?}");
        if missed == 0 {
            assert_eq!(self.recording.losses(), Vec::<&Event<'_>>::new());
        }
        found.disturbed
    }

    /// The kernel does not show each switch, and skips programs that would interrupt themselves: both are counted.
    fn missed(&self) -> u64 {
        let of = |which: Loss| {
            let mut of_it = self.recording.events.iter().filter_map(move |event| match event {
                Event::Loss { loss, count } if *loss == which as u32 => Some(*count),
                _ => None,
            });
            of_it.next_back().unwrap_or(0)
        };
        of(Loss::SwitchMissed) + of(Loss::ProgramMissed)
    }

    fn of_thread<'r, T: 'r>(&'r self, tid: u32, which: fn(&'r Event<'static>) -> Option<T>) -> Vec<T> {
        let events = self.recording.events.iter();
        let own = events.filter(|event| at(event).is_some_and(|at| at.tid == tid));
        own.filter_map(which).collect()
    }

    fn begins(&self, tid: u32) -> Vec<&TaskNew> {
        self.of_thread(tid, |event| {
            if let Event::TaskNew(new) = event {
                Some(new)
            } else {
                None
            }
        })
    }

    fn ends(&self, tid: u32) -> Vec<&TaskExit> {
        self.of_thread(tid, |event| {
            if let Event::TaskExit(exit) = event {
                Some(exit)
            } else {
                None
            }
        })
    }

    fn waits(&self, tid: u32) -> Vec<&Wait> {
        self.of_thread(tid, |event| {
            if let Event::Wait(wait) = event {
                Some(wait)
            } else {
                None
            }
        })
    }

    /// A member begins with each stay and ends with it; nothing happens in between.
    fn check_stays(&self, member: &Member, stays: &[Stay<'_>], found: &mut Differences) {
        let (begins, ends) = (self.begins(member.pid), self.ends(member.pid));
        let lens = (begins.len(), ends.len());
        assert_eq!(lens, (stays.len(), stays.len()), "{begins:?}, {ends:?}");
        for ((stay, begin), end) in stays.iter().zip(&begins).zip(&ends) {
            let (first, next) = (stay.first(), stay.next);
            // One that sleeps appears when it wakes, and leaves when it is switched out elsewhere.
            let latest = if self.asleep { u64::MAX } else { next.after.clock };
            if !begin.existed
                || !(first.before.clock..=first.after.clock).contains(&begin.at.time.0)
                || !(next.before.clock..=latest).contains(&end.at.time.0)
            {
                found.miss(member.pid, stay.place, format!("{begin:?} {first:?} {end:?} {next:?}"));
            }
        }
        self.check_times(member, stays, found);
        for event in self.of_thread(member.pid, Some) {
            let time = at(event).unwrap().time.0;
            let is_within = |stay: &Stay<'_>| {
                // The sleep that ends elsewhere is not recorded.
                let is_sleep = matches!(event, Event::Wait(wait) if wait.flags & WAIT_PREEMPTED == 0);
                stay.may_contain(time) && !(self.asleep && is_sleep && time > stay.next.before.clock)
            };
            // Mappings of a process are known when it returns.
            let may_be_outside = matches!(event, Event::TaskExit(_) | Event::Mapping(_));
            if !may_be_outside && !stays.iter().any(is_within) {
                found.foreign.push(format!("{event:?}"));
            }
        }
    }

    /// On CPUs and waiting, a member is as long as it stays; its CPU time is its own, to the moves at both ends.
    fn check_times(&self, member: &Member, stays: &[Stay<'_>], found: &mut Differences) {
        let (begins, ends) = (self.begins(member.pid), self.ends(member.pid));
        let samples = self.of_thread(member.pid, |event| {
            if let Event::Sample(one) = event {
                Some(one)
            } else {
                None
            }
        });
        let waits = self.waits(member.pid);
        let (mut all, mut least, mut most, mut switches) = (0, 0, 0, 0);
        for ((stay, begin), end) in stays.iter().zip(begins).zip(ends) {
            let is_own = |time: u64| (begin.at.time.0..=end.at.time.0).contains(&time);
            let own = samples.iter().filter(|sample| is_own(sample.at.time.0));
            let on = own.map(|sample| sample.cpu_time).sum::<u64>() + end.cpu_time;
            let own = waits.iter().filter(|wait| is_own(wait.end.0));
            let off: u64 = own.map(|wait| wait.off).sum();
            let life = end.at.time.0 - begin.at.time.0;
            // One that another process has moved runs elsewhere until its end.
            if !self.asleep && self.missed() == 0 && on + off != life {
                found.miss(
                    member.pid,
                    stay.place,
                    format!("{on} ns on CPUs, {off} off, {life} alive"),
                );
            }
            let (first, next) = (stay.first(), stay.next);
            all += on;
            least += next.before.cpu - first.after.cpu;
            most += next.after.cpu - first.before.cpu;
            switches += next.after.switches() - first.before.switches();
        }
        if !self.recording.is_near(all, least, most, OF_A_SWITCH * switches) {
            found.disturbed.push(format!(
                "{all} ns of CPU time of {}, {least} to {most} by the kernel",
                member.pid
            ));
        }
    }

    /// Each wait is recorded once, within its own times, and as many as the kernel counts.
    fn check_waits(&self, member: &Member, stays: &[Stay<'_>], found: &mut Differences) {
        let waits = self.waits(member.pid);
        let (mut inside, mut most) = (0, 0);
        for stay in stays {
            most += stay.next.after.switches() - stay.first().before.switches();
            for (place, phase, next) in stay.pairs() {
                let own = phase.waits.iter().filter_map(|own| differs(own, &waits));
                own.for_each(|text| found.miss(member.pid, place, text));
                // All switches of the phase, whatever they were for.
                let (from, to) = (&phase.after, &next.before);
                let own = waits
                    .iter()
                    .filter(|wait| wait.out.0 >= from.clock && wait.end.0 <= to.clock);
                let count = number(own.copied());
                inside += count;
                if count != to.switches() - from.switches() {
                    found.miss(member.pid, place, format!("{count} switches from {from:?} to {to:?}"));
                }
            }
        }
        // The others are in the moves.
        let recorded = number(waits.iter().copied());
        if !(inside..=most).contains(&recorded) {
            found.foreign.push(format!(
                "{recorded} switches, {inside} in phases, {most} with the moves"
            ));
        }
        let is_unseen = |wait: &&&Wait| wait.flags & WAIT_UNSEEN_START != 0;
        if !self.asleep
            && let Some(wait) = waits.iter().find(is_unseen)
        {
            found.miss(member.pid, 0, format!("{wait:?}"));
        }
    }

    /// A child lives within one phase: it is recorded from its birth to its end.
    fn check_child(&self, member: &Member, (place, phase): (usize, &Phase), found: &mut Differences) {
        let child = &phase.child;
        let (begins, ends) = (self.begins(child.pid), self.ends(child.pid));
        let ([begin], [end]) = (&begins[..], &ends[..]) else {
            panic!("{child:?}: {begins:?} {ends:?}");
        };
        let is_first = begin.parent == (member.pid, member.pid) && !begin.existed;
        if !is_first || begin.at.time.0 > child.born.clock || end.at.time.0 < child.last.clock {
            found.miss(member.pid, place, format!("{child:?}: {begin:?} {end:?}"));
        }
        let waits = self.waits(child.pid);
        let is_counted = |wait: &&&Wait| wait.end.0 <= child.last.clock && wait.flags & WAIT_BIRTH == 0;
        let count = number(waits.iter().filter(is_counted).copied());
        // Switches that the kernel does not show are not counted if the thread's next one is its last.
        if count != child.last.switches() {
            found.disturbed.push(format!("{child:?}: {waits:?}"));
        }
        let on = self.recording.cpu_time(child.pid);
        let off: u64 = waits.iter().map(|wait| wait.off).sum();
        let life = end.at.time.0 - begin.at.time.0;
        if self.missed() == 0 && on + off != life {
            found
                .disturbed
                .push(format!("{on} ns on CPUs, {off} off, {life} alive: {child:?}"));
        }
    }

    /// Each page that was touched within the scope is recorded once, and no other.
    fn check_faults(&self, belongs: impl Fn(i32) -> bool, found: &mut Differences) {
        let mut expected = BTreeMap::new();
        for member in self.notes.members.values() {
            let phases = member.phases.iter().enumerate();
            for (place, phase) in phases.filter(|(_, phase)| belongs(phase.folder)) {
                let pages = (0..phase.pages).map(|page| (member.pid, phase.at + page * page_size()));
                let pages = pages.chain([(phase.child.pid, phase.at + of_child())]);
                expected.extend(pages.map(|page| (page, ((member.pid, place), 0))));
            }
        }
        for event in &self.recording.events {
            if let Event::Fault(fault) = event
                && PAGES.contains(&fault.address.0)
            {
                match expected.get_mut(&(fault.at.pid, fault.address.0 & !(page_size() - 1))) {
                    Some((_, count)) => *count += 1,
                    None => found.foreign.push(format!("{fault:?}")),
                }
            }
        }
        for (page, ((pid, place), count)) in expected {
            if count != 1 {
                found.miss(pid, place, format!("page {page:x?}: {count} times"));
            }
        }
    }
}

/// What differs between a member's own wait and what was recorded meanwhile.
fn differs(own: &OwnWait, waits: &[&Wait]) -> Option<String> {
    let is_within = |wait: &&&Wait| wait.out.0 >= own.from.clock && wait.end.0 <= own.to.clock;
    let recorded: Vec<_> = waits
        .iter()
        .copied()
        .filter(|wait| is_within(&wait) && wait.flags & WAIT_PREEMPTED == 0)
        .collect();
    let is_right = |one: &&Wait| {
        let call = one.call.map(|call| libc::c_long::from(call.number));
        let waker = one.waker.map(|waker| waker.tid);
        match own.echo {
            0 => call == Some(libc::SYS_clock_nanosleep),
            // The answering process is not recorded, but known as the waker.
            echo => call == Some(libc::SYS_read) && waker == Some(echo),
        }
    };
    let count = own.to.voluntary - own.from.voluntary;
    let is_same = number(recorded.iter().copied()) == count && recorded.iter().all(is_right);
    (!is_same).then(|| format!("{count} waits: {recorded:?} {own:?}"))
}

fn number<'w>(waits: impl Iterator<Item = &'w Wait>) -> u64 {
    waits.map(|wait| u64::from(wait.count)).sum()
}

/// The thread whose event it is, and when; of a wait its end.
fn at(event: &Event<'static>) -> Option<At> {
    Some(match event {
        Event::TaskNew(new) => new.at,
        Event::TaskExec(exec) => exec.at,
        Event::TaskExit(exit) => exit.at,
        Event::TaskAlive { at, .. } | Event::TaskRename { at, .. } => *at,
        Event::Mapping(mapping) => mapping.at,
        Event::Sample(sample) => sample.at,
        Event::Fault(fault) => fault.at,
        Event::PagesRead(pages) => pages.at,
        Event::Wait(wait) => At {
            time: wait.end,
            ..wait.at
        },
        Event::CallPath(path) => path.at,
        _ => return None,
    })
}
