//! The symbol API as the front end asks it: samply's answers, llvm-symbolizer's names and lines, and no file that is not to be had.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Tests say what they need by failing.

mod harness;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use harness::programs::{Program, compile, compile_text};
use harness::{Running, serve};
use serde_json::{Value, json};
use symbols::server::{Named, SourceRoots};

/// DWARF 5 in the program, DWARF 4 in files beside it (wholesym 0.8 reads no split DWARF 5), and Rust's; all with inlining.
fn programs(folder: &Path) -> Vec<Program> {
    let all = [
        ("whole", "g++", &["-O2", "-g", "-gdwarf-5"][..]),
        ("split", "g++", &["-O2", "-g", "-gdwarf-4", "-gsplit-dwarf"]),
        ("rust", "rustc", &["-Copt-level=2", "-Cdebuginfo=2"]),
    ];
    let compiled = all.map(|(name, compiler, arguments)| {
        let program = compile(folder, name, compiler, arguments);
        if program.is_none() {
            println!("skipped: {name}: {compiler} is not installed");
        }
        program
    });
    compiled.into_iter().flatten().collect()
}

fn server_of(folder: &Path, named: Named, roots: SourceRoots) -> Running {
    let profile = folder.join("p.json");
    std::fs::write(&profile, "{}").unwrap();
    serve(&profile, named, roots)
}

fn symbolicate(program: &Program, addresses: &[u32]) -> String {
    let stack: Vec<Value> = addresses.iter().map(|address| json!([0, address])).collect();
    let library = [&program.library.debug_name, &program.library.breakpad_id];
    json!({"jobs": [{"memoryMap": [library], "stacks": [stack]}]}).to_string()
}

fn asm(program: &Program, start: u32, size: u32, to_the_end: bool) -> String {
    let library = &program.library;
    let hex = |number: u32| format!("0x{number:x}");
    json!({
        "name": library.name, "codeId": library.code_id, "debugName": library.debug_name, "debugId": library.breakpad_id,
        "startAddress": hex(start), "size": hex(size), "continueUntilFunctionEnd": to_the_end,
    })
    .to_string()
}

fn source(program: &Program, offset: u32, file: &str) -> String {
    let library = &program.library;
    json!({
        "debugName": library.debug_name, "debugId": library.breakpad_id, "moduleOffset": format!("0x{offset:x}"), "file": file,
    })
    .to_string()
}

/// samply's server, until the test ends.
struct Samply {
    child: Child,
    address: String,
    base: String,
}

impl Drop for Samply {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Samply {
    /// `None`: it is not installed.
    fn load(folder: &Path, programs: &[Program]) -> Option<Self> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/samply/bin/samply");
        let samply = std::env::var_os("NGMI_SAMPLY").map_or(own, PathBuf::from);
        let libs: Vec<Value> = (programs.iter().map(|program| &program.library))
            .map(|library| {
                json!({
                    "name": library.name, "path": library.path, "debugName": library.debug_name, "debugPath": library.debug_path,
                    "breakpadId": library.breakpad_id, "codeId": library.code_id, "arch": "x86_64",
                })
            })
            .collect();
        let profile = folder.join("samply.json");
        let meta = json!({"version": 24, "preprocessedProfileVersion": 48});
        std::fs::write(&profile, json!({"meta": meta, "libs": libs, "threads": []}).to_string()).unwrap();
        // Port 0 is not for samply: any that is free now.
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut child = Command::new(samply)
            .args(["load", "--no-open", "--port", &free.to_string()])
            .arg(&profile)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
        let encoded = line
            .trim()
            .split("symbolServer=")
            .nth(1)
            .unwrap_or_else(|| panic!("{line}"));
        let url = encoded.replace("%3A", ":").replace("%2F", "/");
        let (address, base) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        Some(Self {
            child,
            address: address.to_owned(),
            base: format!("/{base}"),
        })
    }

    fn ask(&self, path: &str, question: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let Self { base, address, .. } = self;
        let length = question.len();
        write!(
            stream,
            "POST {base}{path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{question}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

/// Every question that the front end would ask about a thousand addresses of each program.
#[test]
fn answers_are_samplys() {
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
        assert_eq!(ours, theirs, "{name}");
        let frames = ours["results"][0]["stacks"][0].as_array().unwrap();
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

/// How many instructions both have. Ours are spelled by a later version of the same decoder: it knows the first operand of blends, and
/// writes calls otherwise in C style.
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

/// One address as both tell it: lines from the inside out, the innermost function, files.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    lines: Vec<u64>,
    files: Vec<String>,
    functions: Vec<String>,
}

fn base_name(path: &str) -> String {
    // `git:REPOSITORY:PATH:REVISION`: a file of the standard library's.
    let path = path
        .strip_prefix("git:")
        .and_then(|special| special.split(':').nth(1))
        .unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// The last word of a name, without arguments and hash: demanglers differ in the rest.
fn plain(name: &str) -> String {
    let is_hash = |(_, end): &(&str, &str)| {
        end.len() == 17 && end.starts_with('h') && end[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let name = name.rsplit_once("::").filter(is_hash).map_or(name, |(name, _)| name);
    let mut name = name.to_owned();
    for (found, instead) in [
        // Rust's names, half demangled.
        ("$LT$", "<"),
        ("$GT$", ">"),
        ("$u7b$", "{"),
        ("$u7d$", "}"),
        // Angles that are none.
        ("operator<", "operator_lt"),
        ("operator>", "operator_gt"),
        ("operator()", "operator_call"),
        ("->", ""),
        ("[abi:cxx11]", ""),
    ] {
        name = name.replace(found, instead);
    }
    let mut depth = 0_i32;
    let outside = |c: &char| {
        depth += i32::from(*c == '<' || *c == '(');
        let keep = depth == 0;
        depth -= i32::from(*c == '>' || *c == ')');
        keep
    };
    let kept: String = name.chars().filter(outside).collect();
    let kept = kept.trim_end().trim_end_matches(" const").trim_end();
    let last = kept.rsplit("::").next().unwrap_or_default();
    last.split(' ')
        .next_back()
        .unwrap_or_default()
        .trim_start_matches('_')
        .to_owned()
}

fn ours(frame: &Value) -> Told {
    let inlines = frame["inlines"].as_array().cloned().unwrap_or_default();
    let all: Vec<&Value> = inlines.iter().chain([frame]).collect();
    Told {
        lines: all.iter().map(|frame| frame["line"].as_u64().unwrap_or(0)).collect(),
        files: all
            .iter()
            .map(|frame| base_name(frame["file"].as_str().unwrap_or("??")))
            .collect(),
        functions: all
            .iter()
            .map(|frame| plain(frame["function"].as_str().unwrap_or("??")))
            .collect(),
    }
}

fn theirs(answer: &Value) -> Told {
    let all = answer["Symbol"].as_array().unwrap();
    // Without debug info it tells the object file that the symbol table names.
    let is_source = |name: &&str| !name.is_empty() && !name.contains("-cgu.");
    let name = |frame: &Value| frame["FileName"].as_str().filter(is_source).unwrap_or("??").to_owned();
    Told {
        lines: all.iter().map(|frame| frame["Line"].as_u64().unwrap_or(0)).collect(),
        files: all.iter().map(|frame| base_name(&name(frame))).collect(),
        functions: all
            .iter()
            .map(|frame| plain(frame["FunctionName"].as_str().unwrap_or("??")))
            .collect(),
    }
}

#[test]
fn names_and_lines_are_llvm_symbolizers() {
    let folder = tempfile::tempdir().unwrap();
    for program in programs(folder.path()) {
        let addresses = program.addresses(1000);
        let words = addresses.iter().map(|address| format!("0x{address:x}"));
        let mut command = Command::new("llvm-symbolizer");
        command.args(["--output-style=JSON", "--inlines", "--demangle"]);
        let Ok(output) = command
            .arg(format!("--obj={}", program.path.display()))
            .args(words)
            .output()
        else {
            println!("skipped: llvm-symbolizer is not installed");
            return;
        };
        let answers: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let server = server_of(folder.path(), program.named(&[]), SourceRoots::default());
        let answer = server.ask("/symbolicate/v5", &symbolicate(&program, &addresses));
        let frames = answer["results"][0]["stacks"][0].as_array().unwrap();
        assert_eq!((frames.len(), answers.len()), (addresses.len(), addresses.len()));
        let (mut lines, mut functions) = (0, 0);
        for (frame, answer) in frames.iter().zip(&answers) {
            let (ours, theirs) = (ours(frame), theirs(answer));
            if (&ours.lines, &ours.files) != (&theirs.lines, &theirs.files) {
                lines += 1;
                println!(
                    "{}: {:?} {:?}",
                    program.library.name,
                    (&ours.lines, &ours.files),
                    (&theirs.lines, &theirs.files)
                );
            } else if ours.functions != theirs.functions {
                functions += 1;
                println!("{}: {:?} {:?}", program.library.name, ours.functions, theirs.functions);
            }
        }
        assert_eq!(lines, 0, "every line and file of every inline frame is the same");
        // Templates within operators are too much for the comparison.
        assert!(functions * 100 <= addresses.len(), "{functions} other names");
    }
}

#[test]
fn only_sources_that_are_named_twice_and_lie_below_a_root_are_served() {
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
    // In the profile, but not in the debug info there; in the debug info elsewhere; spelled otherwise.
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
fn files_that_the_profile_does_not_name_are_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path(), "whole", "g++", &["-O1", "-g"]) else {
        println!("skipped: g++ is not installed");
        return;
    };
    let (start, size, _) = program.functions()[0];
    // A profile that names nothing; one that names the file with another id; one that names what is no program.
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
    // A size beyond all bounds costs no memory.
    let answer = server.ask("/asm/v1", &asm(&program, start, u32::MAX, true));
    assert!(answer.to_string().len() < 100 << 20);
}
