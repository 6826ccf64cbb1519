//! The symbol API: its responses equal samply's, and it serves no forbidden files.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod harness;

use harness::programs::{Program, compile, compile_text};
use harness::questions::{asm, programs, server_of, source, symbolicate};
use harness::samply::Samply;
use serde_json::Value;
use symbols::server::{Named, SourceRoots};

/// All requests that the front end would send for a thousand addresses of each program.
#[test]
fn answers_match_samply() {
    let folder = tempfile::tempdir().unwrap();
    let programs = programs(folder.path());
    let Some(samply) = Samply::load(folder.path(), &programs) else {
        println!("skipped: samply is not installed (name it in NGMI_SAMPLY)");
        return;
    };
    let sources: Vec<String> = ["program.cpp", "program.rs"]
        .map(|name| folder.path().join(name))
        .map(|path| path.to_str().unwrap().to_owned())
        .into();
    let named = Named {
        libraries: programs.iter().map(|program| program.library.clone()).collect(),
        sources: sources.iter().cloned().chain(["program.cpp".to_owned()]).collect(),
    };
    let roots = SourceRoots::new(None, Some(folder.path()), &[]);
    let server = server_of(folder.path(), named, roots);
    for program in &programs {
        let name = &program.library.name;
        let addresses = program.addresses(1000);
        let question = symbolicate(program, &addresses);
        let (ours, theirs) = (
            server.ask("/symbolicate/v5", &question),
            samply.ask("/symbolicate/v5", &question),
        );
        let frames = ours["results"][0]["stacks"][0].as_array().unwrap();
        same_names(frames, theirs["results"][0]["stacks"][0].as_array().unwrap());
        let found = |answer: &Value| answer["results"][0]["found_modules"].clone();
        assert_eq!(found(&ours), found(&theirs), "{name}");
        assert!(
            frames.iter().filter(|frame| frame["inlines"].is_array()).count() > 100,
            "{name}: inlining"
        );
        let mut codes = 0;
        for (start, size, _) in program.functions().into_iter().step_by(7).take(60) {
            for question in [asm(program, start, size, false), asm(program, start, 1, true)] {
                codes += same_code(&server.ask("/asm/v1", &question), &samply.ask("/asm/v1", &question));
            }
        }
        assert!(codes > 1000, "{name}: {codes} instructions");
        let own = |frame: &&Value| frame["file"].as_str().is_some_and(|file| file.contains("program."));
        let frame = frames.iter().find(own).expect("a frame of the program's own source");
        let offset = u32::from_str_radix(&frame["module_offset"].as_str().unwrap()[2..], 16).unwrap();
        let question = source(program, offset, frame["file"].as_str().unwrap());
        let (ours, theirs) = (server.ask("/source/v1", &question), samply.ask("/source/v1", &question));
        assert_eq!(ours, theirs, "{name}");
        assert!(
            ours["source"].as_str().is_some_and(|text| text.contains("leaf")),
            "{ours}"
        );
    }
}

/// Checks that both have the same names, except where samply guesses: it names any address after the last symbol before it.
fn same_names(ours: &[Value], theirs: &[Value]) {
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        let is_guess = ours["function"].is_null() && theirs["file"].is_null();
        assert!(ours == theirs || is_guess, "{ours} {theirs}");
    }
    let named = ours.iter().filter(|frame| !frame["function"].is_null());
    assert!(
        named.count() * 10 > ours.len() * 9,
        "most of the addresses are in functions"
    );
}

/// Checks that both have the same instructions and returns their number. Ours come from a later version of the same decoder,
/// which knows the first operand of blends and formats calls differently in C style.
fn same_code(ours: &Value, theirs: &Value) -> usize {
    for field in ["startAddress", "size", "arch", "syntax"] {
        assert_eq!(ours[field], theirs[field], "{ours} {theirs}");
    }
    let (ours, theirs) = (
        ours["instructions"].as_array().unwrap(),
        theirs["instructions"].as_array().unwrap(),
    );
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        let is_blend = ours[1].as_str().is_some_and(|text| text.contains("blendv"));
        assert!(
            ours[0] == theirs[0] && (ours[1] == theirs[1] || is_blend),
            "{ours} {theirs}"
        );
    }
    ours.len()
}

#[test]
fn only_sources_named_twice_below_a_root_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
    for name in ["own.c", "unnamed.c", "secret"] {
        std::fs::write(root.join(name), format!("text of {name}")).unwrap();
    }
    std::fs::create_dir(root.join("sub")).unwrap();
    std::fs::write(root.join("binary.c"), [b'x', 0, b'y']).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("link.c")).unwrap();
    std::os::unix::fs::symlink("own.c", root.join("alias.c")).unwrap();
    let files = [
        at("own.c"),
        at("alias.c"),
        at("sub/../own.c"),
        at("unnamed.c"),
        at("link.c"),
        at("binary.c"),
        at("sub"),
        at("absent.c"),
        "/etc/shadow".into(),
        "/etc/passwd".into(),
        "/proc/self/environ".into(),
        "/dev/zero".into(),
        at("../../../../../../etc/passwd"),
        "http://127.0.0.1:1/x.c".into(),
    ];
    let functions = files.iter().enumerate().map(|(n, file)| {
        format!(
            "#line 1 \"{file}\"\n__attribute__((noinline)) int f{n}(int x) {{ return x * {} + 1; }}\n",
            n + 3
        )
    });
    let text = functions
        .chain(["#line 1 \"main.c\"\nint main(void) { return f0(1); }\n".into()])
        .collect::<String>();
    let Some(program) = compile_text(&root, ("liar", "liar.c", &text), "gcc", &["-g", "-O0"]) else {
        println!("skipped: gcc is not installed");
        return;
    };
    let named: Vec<&str> = files
        .iter()
        .map(String::as_str)
        .filter(|file| !file.ends_with("unnamed.c"))
        .collect();
    let secret = at("secret");
    let named: Vec<&str> = named.into_iter().chain([&*secret]).collect();
    let server = server_of(&root, program.named(&named), SourceRoots::new(None, Some(&root), &[]));
    let all = program.functions();
    let offset = |n: usize| {
        let name = format!("f{n}");
        all.iter()
            .find(|(_, _, found)| *found == name)
            .map(|(start, ..)| start + 4)
            .unwrap()
    };
    for (n, file) in files.iter().enumerate() {
        let answer = server.ask("/source/v1", &source(&program, offset(n), file));
        if n < 3 {
            assert_eq!(answer["source"], "text of own.c", "{file}");
            assert_eq!(answer["file"], **file);
        } else {
            assert!(
                answer["source"].is_null() && answer["error"].is_string(),
                "{file}: {answer}"
            );
            assert!(
                !answer.to_string().contains("root:") && !answer.to_string().contains("text of"),
                "{answer}"
            );
        }
    }
    // In the profile but not in the debug info at this address; in the debug info of another address; spelled differently.
    for (place, file) in [
        (offset(0), &*secret),
        (offset(1), &files[0]),
        (offset(0), &at("./own.c")),
        (offset(0), "own.c"),
        (0, &files[0]),
        (u32::MAX, &files[0]),
    ] {
        let answer = server.ask("/source/v1", &source(&program, place, file));
        assert!(answer["error"].is_string(), "{file}: {answer}");
    }
}

#[test]
fn files_not_named_by_the_profile_are_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "whole", "g++", &["-O1", "-g"]) else {
        println!("skipped: g++ is not installed");
        return;
    };
    let (start, size, _) = program.functions()[0];
    // A profile that names nothing; one that names the file with another ID; one that names files that are not programs.
    let mut other_id = program.named(&[]);
    other_id.libraries[0].breakpad_id = "0123456789ABCDEF0123456789ABCDEF0".into();
    other_id.libraries[0].code_id = Some("0123456789abcdef0123456789abcdef01234567".into());
    let elsewhere = |path: &str| {
        let mut named = program.named(&[]);
        (named.libraries[0].path, named.libraries[0].debug_path) = (path.into(), path.into());
        named
    };
    for (named, id) in [
        (Named::default(), &program.library),
        (other_id.clone(), &program.library),
        (other_id.clone(), &other_id.libraries[0]),
        (elsewhere("/etc/shadow"), &program.library),
        (elsewhere("/proc/self/exe"), &program.library),
        (elsewhere("/proc/kcore"), &program.library),
        (elsewhere("/dev/zero"), &program.library),
        (elsewhere("whole"), &program.library),
        (elsewhere(""), &program.library),
    ] {
        let server = server_of(folder.path(), named, SourceRoots::default());
        let asked = Program {
            path: program.path.clone(),
            library: id.clone(),
        };
        let answer = server.ask("/asm/v1", &asm(&asked, start, size, false));
        assert!(answer["error"].is_string(), "{answer}");
        let answer = server.ask("/symbolicate/v5", &symbolicate(&asked, &[start]));
        assert!(answer["results"][0]["stacks"][0][0]["function"].is_null(), "{answer}");
    }
    let server = server_of(folder.path(), program.named(&[]), SourceRoots::default());
    let answer = server.ask("/asm/v1", &asm(&program, start, size, false));
    assert!(answer["instructions"].is_array(), "{answer}");
    // An excessive size costs no memory.
    let answer = server.ask("/asm/v1", &asm(&program, start, u32::MAX, true));
    assert!(answer.to_string().len() < 100 << 20);
}

/// A program that claims another's build ID must not affect the other's names.
#[test]
fn a_forged_build_id_does_not_name_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["right", "copy", "forged"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    let build = |folder: &str, function: &str| {
        let text = format!(
            "__attribute__((noinline)) int {function}(int x) {{ return x * 3; }}\nint main(void) {{ return {function}(1); }}\n"
        );
        let id = "-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233";
        // The last build ID option takes effect.
        compile_text(&at(folder), ("library", "library.c", &text), "gcc", &["-g", "-O0"]).map(|_| {
            let linked = std::process::Command::new("gcc")
                .current_dir(at(folder))
                .args(["-g", "-O0", id, "-o", "library", "library.c"])
                .status()
                .unwrap();
            assert!(linked.success());
            let path = at(folder).join("library").canonicalize().unwrap();
            let library = harness::programs::library(&path);
            Program { path, library }
        })
    };
    let (Some(right), Some(forged)) = (build("right", "right"), build("forged", "forge")) else {
        println!("skipped: gcc is not installed");
        return;
    };
    assert_eq!(right.library.breakpad_id, forged.library.breakpad_id);
    let copy = at("copy").join("library");
    std::fs::copy(&right.path, &copy).unwrap();
    let start = right.functions().iter().find(|(_, _, name)| name == "right").unwrap().0;
    let name = |others: &[&Program]| {
        let mut named = right.named(&[]);
        named.libraries.extend(others.iter().map(|other| other.library.clone()));
        let server = server_of(folder.path(), named, SourceRoots::default());
        let code = server.ask("/asm/v1", &asm(&right, start, 4, false));
        let answer = server.ask("/symbolicate/v5", &symbolicate(&right, &[start]));
        let function = answer["results"][0]["stacks"][0][0]["function"].as_str();
        (function.map(str::to_owned), code["instructions"].is_array())
    };
    let copied = Program {
        library: harness::programs::library(&copy),
        path: copy,
    };
    let whole = (Some("right".to_owned()), true);
    assert_eq!(name(&[]), whole);
    assert_eq!(name(&[&copied]), whole, "the same contents elsewhere");
    assert_eq!(name(&[&forged]), (None, false), "either may have run");
    // Under another name, only the build ID would match.
    let renamed = forged.path.with_file_name("other");
    std::fs::rename(&forged.path, &renamed).unwrap();
    let other = Program {
        library: harness::programs::library(&renamed),
        path: renamed,
    };
    assert_eq!(name(&[&other]), (None, false));
}
