//! The front end asks its symbol servers for the functions without names, and only for those.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use profiler::addr::Svma;
use profiler::fact::reduce::budget::Budget;
use profiler::fact::{Frame, FrameId, Location, ModuleId, ModuleKind, StackId, StackNode};
use serde_json::{Value, json};

use super::profile_synthetic::{Synthetic, everything, hostile, module, named};
use super::{judge, judge_with};

/// A library with names, which calls one without: one function there has only a location, the other nothing.
fn two_libraries() -> Synthetic {
    let mut facts = everything();
    let tables = &mut facts.tables;
    let second = ModuleId(u32::try_from(tables.modules.len()).unwrap());
    let mut library = module(ModuleKind::File, "libsecond.so", 0x1_0000);
    library.build_id = (20..40).collect();
    tables.modules.push(library);
    let mut parent = StackId::new(1);
    for svma in [0x1_1000, 0x1_1040] {
        let frame = FrameId(u32::try_from(tables.frames.len()).unwrap());
        tables.frames.push(Frame {
            location: Location::Module {
                module: second,
                svma: Svma(svma),
            },
            is_return_address: false,
        });
        tables.stacks.push(StackNode {
            parent: Some(parent),
            frame,
        });
        parent = StackId::new(u32::try_from(tables.stacks.len() - 1).unwrap());
        if svma == 0x1_1040 {
            let name = named(&[("libsecond.so + 0x1030", None, None)], 0x1_1030, Some(0x20));
            tables.names.insert(frame, name);
        }
    }
    facts.faults.iter_mut().for_each(|fault| fault.stack = Some(parent));
    facts
}

/// A symbol server that knows the second library; the libraries that it was asked for.
struct SymbolApi {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl SymbolApi {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(question) = body(&mut stream) else { continue };
                let results: Vec<Value> = question["jobs"].as_array().unwrap().iter().map(result).collect();
                let modules = question["jobs"].as_array().unwrap().iter();
                let modules = modules.map(|job| job["memoryMap"][0].as_array().unwrap().clone());
                let names = modules.map(|module| format!("{}/{}", module[0], module[1]).replace('"', ""));
                log.lock().unwrap().extend(names);
                let answer = json!({ "results": results }).to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    answer.len()
                );
                stream.write_all((head + &answer).as_bytes()).unwrap();
            }
        });
        Self { url, asked }
    }
}

/// `None` for a connection that ends without a request: a client may open one that it does not use.
fn body(stream: &mut TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).unwrap();
    (length > 0).then(|| serde_json::from_slice(&bytes).unwrap())
}

/// The protocol's answer to one job: each function is inlined into another.
fn result(job: &Value) -> Value {
    let module = &job["memoryMap"][0];
    let name = module[0].as_str().unwrap();
    let is_known = name == "libsecond.so";
    let frame = |(index, frame): (usize, &Value)| {
        let offset = format!("{:#x}", frame[1].as_u64().unwrap());
        json!({
            "frame": index, "module": name, "module_offset": offset,
            "function": format!("outer at {offset}"), "function_offset": "0x0", "file": "second.c", "line": 7,
            "inlines": [{"function": format!("inlined at {offset}"), "file": "second.h", "line": 3}],
        })
    };
    let frames: Vec<Value> = job["stacks"][0]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(frame)
        .collect();
    let key = format!("{name}/{}", module[1].as_str().unwrap());
    json!({"found_modules": {key: is_known}, "stacks": [if is_known { frames } else { Vec::new() }]})
}

fn stack(found: &Value) -> Vec<String> {
    let threads = found["threads"].as_array().unwrap().iter();
    let mut faults = threads.flat_map(|thread| thread["faults"].as_array().unwrap());
    let stack = faults.next().unwrap()["stack"].as_array().unwrap();
    stack.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The functions of the first library, which has names.
fn of_the_first() -> Vec<String> {
    let names = [
        "inner".to_owned(),
        "middle".to_owned(),
        hostile()[5].clone(),
        "main".to_owned(),
    ];
    names.map(|name| format!("libdemo.so!{name}")).into()
}

#[test]
fn the_front_end_asks_for_nameless_functions_and_keeps_the_others() {
    let api = SymbolApi::start();
    let facts = two_libraries();
    let Some((found, _)) = judge_with(&facts, Budget::default(), &["--symbols", &api.url]) else {
        return;
    };
    let second = [
        "inlined at 0x1040",
        "outer at 0x1040",
        "inlined at 0x1000",
        "outer at 0x1000",
    ];
    let second = second.map(|name| format!("libsecond.so!{name}"));
    assert_eq!(stack(&found), [&second[..], &of_the_first()].concat());
    let asked = api.asked.lock().unwrap().clone();
    assert_eq!(asked, ["libsecond.so/1716151419181B1A1C1D1E1F202122230"]);
}

#[test]
fn without_a_server_everything_stays_as_it_is() {
    let Some((found, _)) = judge(&two_libraries(), Budget::default()) else {
        return;
    };
    let second = ["libsecond.so + 0x1030", "libsecond.so + 0x1000"];
    let second = second.map(|name| format!("libsecond.so!{name}"));
    assert_eq!(stack(&found), [&second[..], &of_the_first()].concat());
}

#[test]
fn only_nameless_functions_keep_the_id_of_their_library() {
    let profile: Value = serde_json::from_slice(&two_libraries().json()).unwrap();
    assert_eq!(profile["meta"]["symbolicated"], false);
    let libs = profile["libs"].as_array().unwrap();
    let (frames, names) = (&profile["shared"]["frameTable"], &profile["shared"]["nativeSymbols"]);
    let ids = |column: &Value| -> Vec<(String, bool)> {
        let libs = column
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|lib| libs.get(usize::try_from(lib.as_i64()?).ok()?));
        let id = |lib: &Value| (lib["name"].as_str().unwrap().to_owned(), lib["breakpadId"] != "");
        libs.map(id).collect()
    };
    for (name, has_id) in ids(&frames["lib"]).into_iter().chain(ids(&names["libIndex"])) {
        assert_eq!(has_id, name == "libsecond.so", "{name}");
    }
    // With all names, nothing is left to ask.
    let whole: Value = serde_json::from_slice(&everything().json()).unwrap();
    assert_eq!(whole["meta"]["symbolicated"], true);
    let libs = whole["libs"].as_array().unwrap();
    assert!(libs.iter().all(|lib| lib["breakpadId"] != ""));
}
