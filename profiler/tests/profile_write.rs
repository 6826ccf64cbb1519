//! The profile says what the tables say, in the front end's terms.
#![allow(clippy::unwrap_used)]

mod profile_synthetic;

use profile_synthetic::{everything, hostile};
use serde_json::Value;

fn profile() -> Value {
    serde_json::from_slice(&everything().json()).unwrap()
}

/// The stack of a sample as function names, outermost first.
fn stack_names(profile: &Value, row: u64) -> Vec<String> {
    let shared = &profile["shared"];
    let mut names = Vec::new();
    let mut row = usize::try_from(row).unwrap();
    loop {
        let frame = shared["stackTable"]["frame"][row].as_u64().unwrap() as usize;
        let func = shared["frameTable"]["func"][frame].as_u64().unwrap() as usize;
        let name = shared["funcTable"]["name"][func].as_u64().unwrap() as usize;
        names.push(shared["stringArray"][name].as_str().unwrap().to_owned());
        match shared["stackTable"]["prefixOffset"][row].as_u64().unwrap() as usize {
            0 => break,
            offset => row -= offset,
        }
    }
    names.reverse();
    names
}

fn thread<'a>(profile: &'a Value, id: u64) -> &'a Value {
    let threads = profile["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["ngmi"]["thread"] == id).unwrap()
}

#[test]
fn inlined_functions_are_frames_of_their_own_outermost_first() {
    let profile = profile();
    // Thread 0's second sample is the second fact: stack 1.
    let row = thread(&profile, 0)["samples"]["stack"][1].as_u64().unwrap();
    assert_eq!(stack_names(&profile, row), ["main", &hostile()[5], "middle", "inner"]);
    let frames = &profile["shared"]["frameTable"];
    let frame = profile["shared"]["stackTable"]["frame"][usize::try_from(row).unwrap()]
        .as_u64()
        .unwrap() as usize;
    assert_eq!(frames["inlineDepth"][frame], 2);
    assert_eq!(frames["line"][frame], 3);
    assert_eq!(frames["address"][frame], 0x1000);
    assert_eq!(frames["address"][0], 0xfff, "a return address is moved into the call");
}
