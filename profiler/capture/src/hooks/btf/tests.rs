//! Fields, variables and attach points of small .BTF sections, and of the running kernel.

use profiler_common::config::Config;

use super::*;

/// A .BTF section from types (as words) and names.
fn section(types: &[u32], names: &[u8]) -> Vec<u8> {
    let type_len = u32::try_from(types.len() * 4).unwrap();
    let mut words = vec![
        0x0001_eb9f,
        24,
        0,
        type_len,
        type_len,
        u32::try_from(names.len()).unwrap(),
    ];
    words.extend(types);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.extend(names);
    bytes
}

/// `struct s { int a; const struct { int b; union { int c; }; }; struct t { int d; } e; };`
fn example() -> Vec<u8> {
    // Names: 1 "s", 3 "a", 5 "b", 7 "c", 9 "d", 11 "e", 13 "t"
    let kind = |kind: u32, members: u32| kind << 24 | members;
    #[rustfmt::skip]
    let types = [
        0, kind(1, 0), 4, 32,                                     // 1: int
        0, kind(5, 1), 4, /* c */ 7, 1, 0,                        // 2: union
        0, kind(4, 2), 8, /* b */ 5, 1, 0, /* anonymous */ 0, 2, 32, // 3: struct
        0, kind(10, 0), 3,                                        // 4: const
        13, kind(4, 1), 4, /* d */ 9, 1, 0,                       // 5: struct t
        1, kind(4, 3), 16, /* a */ 3, 1, 0, /* anonymous */ 0, 4, 32, /* e */ 11, 5, 96, // 6: struct s
    ];
    section(&types, b"\0s\0a\0b\0c\0d\0e\0t\0")
}

#[test]
fn finds_fields_in_anonymous_and_named_members() {
    let btf = Btf::parse(example()).unwrap();
    let found = ["s.a", "s.b", "s.c", "s.e", "s.e.d"].map(|path| btf.offset(path));
    assert_eq!(found, [Some(0), Some(4), Some(8), Some(12), Some(12)]);
    assert_eq!(btf.offset("s.d"), None);
    assert_eq!(btf.offset("u.a"), None);
}

#[test]
fn finds_variables_of_cpus() {
    // Names: 1 "a", 3 "b", 5 ".data..percpu"
    let kind = |kind: u32, members: u32| kind << 24 | members;
    #[rustfmt::skip]
    let types = [
        0, kind(1, 0), 4, 32,                                             // 1: int
        1, kind(14, 0), 1, 1,                                             // 2: a
        3, kind(14, 0), 1, 1,                                             // 3: b
        5, kind(15, 2), 0, /* a */ 2, 0x40, 4, /* b */ 3, 0x88, 4,        // 4: the section
    ];
    let btf = Btf::parse(section(&types, b"\0a\0b\0.data..percpu\0")).unwrap();
    assert_eq!(
        ["a", "b", "c"].map(|name| btf.cpu_variable(name)),
        [Some(0x40), Some(0x88), None]
    );
    assert_eq!(Btf::parse(example()).unwrap().cpu_variable("a"), None);
}

#[test]
fn attach_points_keep_their_ids() {
    // Names: 1 "f", 3 "btf_trace_t", 15 "other"
    let typedef = KIND_TYPEDEF << 24;
    let struct_of_one = [15, 4 << 24 | 1, 4, 15, 1, 0];
    let types = [
        &struct_of_one[..],
        &[3, typedef, 1],
        &[15, typedef, 1],
        &[1, KIND_FUNCTION << 24, 1],
    ]
    .concat();
    let btf = Btf::parse(section(&types, b"\0f\0btf_trace_t\0other\0")).unwrap();
    let points = Btf::parse(btf.only_attach_points()).unwrap();
    let shown = points
        .types
        .iter()
        .map(|&at| (points.kind(at).unwrap(), points.name(at).unwrap()));
    let expected: [(u32, &[u8]); 4] = [
        (KIND_FORWARD, b""),
        (KIND_TYPEDEF, b"btf_trace_t"),
        (KIND_FORWARD, b""),
        (KIND_FUNCTION, b"f"),
    ];
    assert!(shown.eq(expected));
    assert!(btf.attach_points().is_ok());
}

#[test]
fn damaged_btf_yields_none() {
    let whole = example();
    for len in 0..whole.len() {
        if let Ok(btf) = Btf::parse(whole[..len].to_vec()) {
            let _ = btf.offset("s.e.d");
        }
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        if let Ok(btf) = Btf::parse(bytes) {
            let _ = btf.offset("s.c");
        }
    }
}

#[test]
fn recursive_types_terminate() {
    let kind = |kind: u32, members: u32| kind << 24 | members;
    let itself = section(&[1, kind(4, 1), 4, 0, 1, 0], b"\0s\0");
    assert_eq!(Btf::parse(itself).unwrap().offset("s.a"), None);
    let alias = section(&[1, kind(4, 1), 4, 0, 2, 0, 0, kind(10, 0), 2], b"\0s\0");
    assert_eq!(Btf::parse(alias).unwrap().offset("s.a"), None);
}

#[test]
fn the_running_kernel_has_every_field() {
    let Ok(btf) = Btf::of_kernel() else {
        println!("skipped: no {VMLINUX}");
        return;
    };
    let mut config = Config::NOTHING;
    assert_eq!(locate(&btf, &mut config), Vec::<&str>::new());
    assert_ne!(config.task_pid, config.task_tgid);
    assert!(btf.has_function(WALKER_NEEDS) && !btf.has_function("no such function"));
}
