//! The pool of processes, with threads of the tests at the other end.

use super::*;
use base::event::FileId;

fn mapping(minor: u32) -> Job {
    Job::Mapped(Box::new(Mapping {
        file: FileId {
            minor,
            inode: 1,
            ..FileId::default()
        },
        ..Mapping::default()
    }))
}

/// Never answers for device 0:1, ends at device 0:2, refuses all others.
#[allow(clippy::unnecessary_wraps, reason = "as the type says")]
fn server(socket: OwnedFd, _: Option<u32>) -> io::Result<Option<Child>> {
    std::thread::spawn(move || {
        let link = Link::from(socket);
        while let Ok(Some(((ask, _), _))) = link.receive::<(Ask, u64)>() {
            match ask {
                Ask::Mapped { file, .. } if file.minor == 1 => {}
                Ask::Mapped { file, .. } if file.minor == 2 => return,
                _ => link.send(&Answer::Refused("no".to_owned()), None).unwrap(),
            }
        }
    });
    Ok(None)
}

fn devices(done: &[Done], failure: &Failure) -> Vec<u32> {
    let of = |job: &Job| match job {
        Job::Mapped(mapping) => mapping.file.minor,
        _ => 0,
    };
    let those = done.iter().filter(|(_, result)| result.as_ref().err() == Some(failure));
    let mut devices: Vec<u32> = those.map(|(job, _)| of(job)).collect();
    devices.sort_unstable();
    devices
}

fn refused(why: &str) -> Failure {
    Failure::Refused(why.to_owned())
}

/// Turns until `count` jobs are done.
fn turn(opener: &mut Opener, count: usize) -> Vec<Done> {
    let mut done = Vec::new();
    while done.len() < count {
        done.extend(opener.turn());
        std::thread::sleep(Duration::from_millis(1));
    }
    done
}

#[test]
fn a_hung_file_system_does_not_delay_others() {
    let mut opener = Opener::new(server, None).unwrap();
    for minor in [1, 1, 3, 4] {
        opener.open(mapping(minor));
    }
    let done = turn(&mut opener, 2);
    assert_eq!(devices(&done, &refused("no")), [3, 4]);
    assert!(!opener.is_idle());
    // It does not delay the end.
    let rest: Vec<Done> = std::iter::from_fn(|| opener.finish()).flatten().collect();
    assert_eq!(devices(&rest, &Failure::Silent), [1, 1]);
    assert!(opener.is_idle());
    // It is not tried again at once.
    opener.open(mapping(1));
    assert_eq!(devices(&opener.turn(), &Failure::Silent), [1]);
}

#[test]
fn a_process_that_ends_is_replaced() {
    let mut opener = Opener::new(server, None).unwrap();
    for minor in [2, 3] {
        opener.open(mapping(minor));
    }
    let done = turn(&mut opener, 2);
    assert_eq!(
        (devices(&done, &refused(ENDED)), devices(&done, &refused("no"))),
        (vec![2], vec![3])
    );
    // A process that ends while it is idle fails no job.
    assert!(opener.turn().is_empty() && opener.is_idle());
}

#[test]
fn restarts_are_limited() {
    let mut opener = Opener::new(server, None).unwrap();
    for _ in 0..=GIVEN_UP {
        opener.open(mapping(2));
    }
    let done = turn(&mut opener, GIVEN_UP as usize + 1);
    assert_eq!(devices(&done, &Failure::Silent), [2]);
}
