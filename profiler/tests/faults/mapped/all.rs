//! The files of all tests in one recording, as in [`crate::together`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use super::places::Place;
use super::{AHEAD, CROWD, EACH_PAGE, ELSEWHERE, Files, HUGE, IN_MEMORY, IN_SHARED_MEMORY, PART, Reported, record};
use crate::tier::Tier;

const ALL: [(Place, &[Files]); 6] = [
    (Place::Disk, &[EACH_PAGE, PART, CROWD, IN_MEMORY, AHEAD]),
    (Place::SharedMemory, &[IN_SHARED_MEMORY]),
    (Place::In("ext4"), &[ELSEWHERE]),
    (Place::In("xfs"), &[ELSEWHERE]),
    (Place::In("btrfs"), &[ELSEWHERE]),
    (Place::HugeTmpfs, &[HUGE]),
];
/// Maximum number of recordings: the kernel may take back a page while the oracle counts it.
const ATTEMPTS: u32 = 3;

/// The recorded files, and the number of each place, or why it has none.
struct All {
    reported: Vec<Reported>,
    places: Vec<Result<usize, String>>,
}

/// What is shown of these files. An error says why they can't be recorded here.
pub fn part(tier: Tier, place: Place, files: Files) -> Result<Vec<Reported>, String> {
    static RECORDINGS: [OnceLock<Option<Result<All, String>>>; 3] = [const { OnceLock::new() }; 3];
    let all = RECORDINGS[tier as usize]
        .get_or_init(|| catch_unwind(AssertUnwindSafe(|| record_all(tier))).ok())
        .as_ref()
        .expect("the recording of all files failed: see the test that started it")
        .as_ref()
        .map_err(String::clone)?;
    let index = ALL.iter().position(|(other, _)| *other == place).unwrap();
    let number = all.places[index].clone()?;
    let is_part = |one: &&Reported| {
        let name = format!("{}:{}", one.kernel.kind, one.kernel.pattern);
        one.kernel.place == number && files.contains(&name.as_str())
    };
    let found: Vec<_> = all.reported.iter().filter(is_part).cloned().collect();
    // Each in the log and in the profile.
    assert_eq!(found.len(), 2 * files.len(), "{place:?}");
    Ok(found)
}

fn record_all(tier: Tier) -> Result<All, String> {
    let folders = ALL.map(|(place, _)| place.create());
    let mut number = 0..;
    let places = folders
        .iter()
        .map(|folder| match folder {
            Ok(_) => Ok(number.next().unwrap()),
            Err(reason) => Err(reason.clone()),
        })
        .collect();
    let parts: Vec<_> = ALL
        .iter()
        .zip(&folders)
        .filter_map(|((_, files), folder)| Some((folder.as_ref().ok()?.path(), files.concat())))
        .collect();
    let mut recorded = record(tier, &parts);
    for _ in 1..ATTEMPTS {
        if recorded.is_ok() {
            break;
        }
        recorded = record(tier, &parts);
    }
    recorded.map(|reported| All { reported, places })
}
