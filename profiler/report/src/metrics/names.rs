//! Makes names of threads equal across runs: a process ID in a name (`FSBroker9286`) is replaced with `PID`.

use rustc_hash::FxHashSet;

use fact::Tables;

/// Smallest ID that is replaced; smaller numbers are usually counts.
const SMALLEST: u32 = 100;

/// The process ids of a recording.
#[derive(Debug)]
pub struct Pids(FxHashSet<u32>);

impl Pids {
    /// Collects the IDs of all processes.
    pub fn of(tables: &Tables) -> Self {
        let pids = tables.processes.iter().map(|process| process.pid);
        Self(pids.filter(|pid| *pid >= SMALLEST).collect())
    }

    /// Replaces each number in the name that is a process ID with `PID`.
    pub fn taken_out(&self, name: &str) -> String {
        let mut text = String::with_capacity(name.len());
        let mut rest = name;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
            let (digits, after) = from.split_at(end);
            let is_pid = digits.parse().is_ok_and(|number| self.0.contains(&number));
            text.push_str(before);
            text.push_str(if is_pid { "PID" } else { digits });
            rest = after;
        }
        text.push_str(rest);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fact::fixtures;

    #[test]
    fn only_process_ids_are_removed() {
        let tables = Tables {
            processes: vec![fixtures::process(9286, "firefox"), fixtures::process(7, "init")],
            ..Tables::default()
        };
        let pids = Pids::of(&tables);
        for (name, expected) in [
            ("FSBroker9286", "FSBrokerPID"),
            ("9286:é9286x", "PID:éPIDx"),
            ("StyleThread#7", "StyleThread#7"),
            ("FSBroker92860", "FSBroker92860"),
            ("99999999999999999999", "99999999999999999999"),
            ("", ""),
        ] {
            assert_eq!(pids.taken_out(name), expected);
        }
    }
}
