//! Counts with their nouns: `1 thread`, `1,234 threads`; and losses as phrases.

use profiler_common::Loss;

/// An integer with separated thousands: `12,345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The count and its noun, which takes an `s` (or `es` after a sibilant; `y` becomes `ies` after a consonant):
/// `1 process`, `2 processes`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), agreeing(number, noun))
}

/// The noun alone, in the singular or plural as the count requires.
pub fn agreeing(number: u64, noun: &str) -> String {
    if number == 1 {
        return noun.to_owned();
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if ["s", "sh", "ch", "x"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// The end of a list that names one item of several: `, and 3 more threads`; empty if there are no others.
pub fn and_more(others: usize, noun: &str) -> String {
    let others = others as u64;
    if others == 0 {
        return String::new();
    }
    format!(", and {} more {}", count(others), agreeing(others, noun))
}

/// A loss and how often it happened, for people: `1 context switch missed`. `name` is [`Loss::name`], by which event
/// logs and profiles know it; one that this version does not know follows its count unchanged.
pub fn loss(name: &str, number: u64) -> String {
    let known = Loss::ALL.into_iter().find(|loss| loss.name() == name);
    let Some((noun, rest)) = known.map(phrase) else {
        return format!("{} {name}", count(number));
    };
    format!("{} {rest}", counted(number, noun))
}

/// What was lost, in the singular, and what happened to it.
fn phrase(loss: Loss) -> (&'static str, &'static str) {
    match loss {
        Loss::TaskRingFull => ("task event", "lost (ring full)"),
        Loss::SampleRingFull => ("sample", "lost (ring full)"),
        Loss::ThreadTableFull => ("thread", "not recorded (table full)"),
        Loss::ProgramMissed => ("program run", "skipped by the kernel"),
        Loss::PerfRecordLost => ("perf record", "lost"),
        Loss::SampleThrottled => ("sampling interrupt", "throttled"),
        Loss::LogWriteFailed => ("log write", "failed"),
        Loss::LogDamaged => ("log chunk", "damaged"),
        Loss::EventLate => ("event", "too late to be sorted"),
        Loss::StackRingFull => ("stack", "lost (ring full)"),
        Loss::SpaceTableFull => ("address space", "without unwinding (table full)"),
        Loss::StackUnknown => ("stack", "missing from the log"),
        Loss::WalkerBusy => ("stack", "not walked (walker busy)"),
        Loss::FaultRingFull => ("page fault", "lost (ring full)"),
        Loss::FaultNested => ("page fault", "nested too deeply"),
        Loss::PagesRingFull => ("page read", "lost (ring full)"),
        Loss::WaitRingFull => ("wait", "lost (ring full)"),
        Loss::BlockRingFull => ("block request", "lost (ring full)"),
        Loss::RequestTableFull => ("block request", "not timed (table full)"),
        Loss::NameRingFull => ("file name", "lost (ring full)"),
        Loss::RequestEndMissed => ("block request completion", "missed"),
        Loss::SwitchMissed => ("context switch", "missed"),
        Loss::AroundMissed => ("mapped range", "missed"),
        Loss::SelectionFull => ("selection entry", "lost (table full)"),
        Loss::CgroupLeftOut => ("process", "without its cgroup (limit)"),
        Loss::PopulatedCut => ("range mapped by a system call", "cut (limit)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_counts() {
        assert_eq!(counted(0, "thread"), "0 threads");
        assert_eq!(counted(1, "process"), "1 process");
        assert_eq!(counted(2, "process"), "2 processes");
        assert_eq!(counted(1_234_567, "entry"), "1,234,567 entries");
        assert_eq!(counted(3, "delay"), "3 delays");
        assert_eq!(counted(3, "switch"), "3 switches");
        assert_eq!(and_more(0, "thread"), "");
        assert_eq!(and_more(1, "thread"), ", and 1 more thread");
        assert_eq!(and_more(1200, "thread"), ", and 1,200 more threads");
    }

    #[test]
    fn each_loss_is_a_phrase() {
        assert_eq!(loss("switches missed", 1), "1 context switch missed");
        assert_eq!(loss("switches missed", 2), "2 context switches missed");
        assert_eq!(
            loss("block request's end missed", 6),
            "6 block request completions missed"
        );
        assert_eq!(loss("sample ring full", 1234), "1,234 samples lost (ring full)");
        assert_eq!(loss("a loss of a later version", 5), "5 a loss of a later version");
    }
}
