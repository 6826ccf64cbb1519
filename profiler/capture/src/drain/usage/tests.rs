//! Readings of cgroups, from a folder with files as theirs.

use std::path::Path;

use super::*;

/// Files as those of cgroups of version 2, in a folder.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, file: &str, text: &str) {
        let folder = self.0.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(file), text).unwrap();
    }

    fn sampler(&self) -> UsageSampler {
        let hierarchy = |number, controllers: &[&str], mount: &Path| Hierarchy {
            number,
            controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
            mount: mount.to_owned(),
        };
        UsageSampler::of(vec![
            hierarchy(0, &[], self.0.path()),
            hierarchy(3, &["cpu", "cpuacct"], Path::new("/nowhere")),
            hierarchy(4, &["memory"], &self.0.path().join("v1")),
        ])
    }
}

/// Reads all now, whatever was spent before.
fn turn(sampler: &mut UsageSampler) {
    let limit = 4 * MAX_CGROUPS;
    sampler.cgroups.iter_mut().for_each(|one| one.due = Instant::now());
    for _ in 0..limit {
        sampler.rests_until = None;
        sampler.turn();
    }
}

fn memory(usage: Option<Usage>) -> Vec<(String, UsageHierarchy, Vec<Option<u64>>)> {
    let cgroups = usage.into_iter().flat_map(|usage| usage.cgroups);
    let values = |samples: Vec<UsageSample>| samples.into_iter().map(|sample| sample.memory).collect();
    cgroups
        .map(|one| (one.path, one.hierarchy, values(one.samples)))
        .collect()
}

#[test]
fn each_hierarchy_is_read_where_the_process_is() {
    let tree = Tree::new();
    tree.write("/a", "memory.current", "1");
    tree.write("/v1/b", "memory.usage_in_bytes", "2");
    let mut sampler = tree.sampler();
    sampler.notice("4:memory:/b\n3:cpu,cpuacct:/c\n0::/a\n");
    turn(&mut sampler);
    let expected = [
        ("/a".to_owned(), UsageHierarchy::Version2, vec![Some(1)]),
        ("/b".to_owned(), UsageHierarchy::MemoryVersion1, vec![Some(2)]),
    ];
    assert_eq!(memory(sampler.news()), expected);
    assert_eq!(sampler.news(), None);
}

#[test]
fn a_change_is_between_two_readings() {
    let tree = Tree::new();
    tree.write("/a", "memory.current", "1");
    let mut sampler = tree.sampler();
    sampler.notice("0::/a\n");
    for _ in 0..3 {
        turn(&mut sampler);
    }
    assert_eq!(memory(sampler.news())[0].2, [Some(1)]);
    tree.write("/a", "memory.current", "5");
    turn(&mut sampler);
    let news = sampler.news();
    let read = &news.as_ref().unwrap().cgroups[0].samples;
    assert!(read[0].time < read[1].time);
    assert_eq!(memory(news)[0].2, [Some(1), Some(5)]);
    sampler.end(Timestamp(u64::MAX));
    let last = &sampler.news().unwrap().cgroups[0].samples;
    assert_eq!((last[0].time, last[0].memory), (Timestamp(u64::MAX), Some(5)));
}

#[test]
fn those_above_are_read_if_they_have_a_limit() {
    let tree = Tree::new();
    for (path, limit) in [
        ("/", "7"),
        ("/pod", "1000"),
        ("/pod/free", "max"),
        ("/pod/free/a", "max"),
    ] {
        tree.write(path, "memory.max", limit);
        tree.write(path, "memory.current", "1");
    }
    let mut sampler = tree.sampler();
    sampler.notice("0::/pod/free/a\n");
    turn(&mut sampler);
    let paths: Vec<String> = memory(sampler.news()).into_iter().map(|one| one.0).collect();
    assert_eq!(paths, ["/pod/free/a", "/pod", "/"]);
}

#[test]
fn a_cgroup_that_vanishes_makes_room_for_another_one() {
    let tree = Tree::new();
    let mut sampler = tree.sampler();
    for number in 0..MAX_CGROUPS + 3 {
        tree.write(&format!("/{number}"), "memory.current", "1");
        sampler.notice(&format!("0::/{number}\n"));
        sampler.notice(&format!("0::/{number}\n"));
    }
    turn(&mut sampler);
    let news = sampler.news().unwrap();
    assert_eq!((news.cgroups.len(), news.left_out), (MAX_CGROUPS, 3));
    std::fs::remove_dir_all(tree.0.path().join("5")).unwrap();
    turn(&mut sampler);
    sampler.news();
    sampler.notice(&format!("0::/{}\n", MAX_CGROUPS + 1));
    turn(&mut sampler);
    let news = sampler.news().unwrap();
    assert_eq!((news.cgroups.len(), news.left_out), (1, 2));
    assert_eq!(news.cgroups[0].path, format!("/{}", MAX_CGROUPS + 1));
}

#[test]
fn paths_outside_are_not_read() {
    let tree = Tree::new();
    tree.write("/a", "memory.current", "1");
    let mut sampler = tree.sampler();
    sampler.notice("0::/b/../a\n0::/a\n");
    sampler.notice("0::/../a\nx\n:::\n");
    assert_eq!(sampler.cgroups.len(), 0);
}

#[test]
fn reading_rests_for_many_times_as_long_as_it_took() {
    let tree = Tree::new();
    tree.write("/a", "memory.current", "1");
    let mut sampler = tree.sampler();
    sampler.notice("0::/a\n");
    let now = Instant::now();
    sampler.turn();
    assert!(sampler.rests_until.unwrap() > now && sampler.news().is_some());
    sampler.cgroups[0].due = now;
    sampler.rests_until = Some(Instant::now() + Duration::from_secs(9));
    sampler.turn();
    assert_eq!(sampler.cgroups[0].same, None, "it was read again");
}
