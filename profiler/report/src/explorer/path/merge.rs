//! Limits the number of pieces that a page receives: short ones next to each other become one.

use crate::export::ns;
use crate::path::walk::Piece;

/// Adjacent pieces of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'p> {
    /// The longest of them.
    pub longest: &'p Piece,
    /// The time of all, in ns.
    pub time_ns: u64,
    /// How many there are.
    pub count: u64,
}

/// The pieces, at most `most + 1` runs of them: if there are more, those that are shorter than a share of the path are
/// merged with their neighbors.
pub fn runs(pieces: &[Piece], most: usize) -> Vec<Run<'_>> {
    let whole: u64 = pieces.iter().map(time).fold(0, u64::saturating_add);
    // Of long pieces, of full runs, and of runs that a long piece ends, there is at most a third of `most` each.
    let least = (whole / most.max(1) as u64).saturating_mul(3).saturating_add(3);
    let is_many = pieces.len() > most;
    let mut runs: Vec<Run<'_>> = Vec::new();
    for piece in pieces {
        let time = time(piece);
        match runs
            .last_mut()
            .filter(|run| is_many && time < least && run.time_ns < least)
        {
            Some(run) => {
                run.time_ns = run.time_ns.saturating_add(time);
                run.count += 1;
                if time > self::time(run.longest) {
                    run.longest = piece;
                }
            }
            None => runs.push(Run {
                longest: piece,
                time_ns: time,
                count: 1,
            }),
        }
    }
    runs
}

fn time(piece: &Piece) -> u64 {
    ns(piece.end.since(piece.start))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::lanes::EndedBy;
    use crate::path::walk::{Kind, Spent};
    use base::addr::Timestamp;
    use fact::ThreadId;

    fn pieces(times: &[u64]) -> Vec<Piece> {
        let mut now = 0;
        let piece = |time: &u64| {
            let start = Timestamp(now);
            now += time;
            Piece {
                start,
                end: Timestamp(now),
                lane: ThreadId(0),
                via: None,
                spent: Spent {
                    thread: ThreadId(0),
                    kind: Kind::Cpu,
                    stack: None,
                    file: None,
                    device: None,
                    ended_by: EndedBy::Unknown,
                },
            }
        };
        times.iter().map(piece).collect()
    }

    proptest! {
        #[test]
        fn runs_are_few_and_add_up(
            times in prop::collection::vec(prop_oneof![1u64..9, 1u64..100_000], 0..400),
            most in 1usize..200,
        ) {
            let pieces = pieces(&times);
            let runs = runs(&pieces, most);
            prop_assert!(runs.len() <= most.max(1) + 1, "{} of at most {most}", runs.len());
            prop_assert_eq!(runs.iter().map(|run| run.time_ns).sum::<u64>(), times.iter().sum::<u64>());
            prop_assert_eq!(runs.iter().map(|run| run.count).sum::<u64>(), times.len() as u64);
            let mut at = 0;
            for run in &runs {
                let end = at + usize::try_from(run.count).unwrap();
                let longest = times[at..end].iter().max().unwrap();
                prop_assert_eq!(time(run.longest), *longest);
                at = end;
            }
            if pieces.len() <= most {
                prop_assert_eq!(runs.len(), pieces.len());
            }
        }
    }
}
