//! The server's names are no guesses from the symbol before, since the front end asks for names on
//! its own.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A failed unwrap fails the test.

mod build;

use build::served::{Answer, Server};
use build::sym::{debug_id, symbol_file};
use build::{Build, Symbol};
use serde_json::{Value, json};
use symbols::server::{Library, Named, Query, ServerConfig, SymbolServer};

/// One exported function, and one that only the full symbol table names.
const SOURCE: &str = r"
__attribute__((noinline)) int exported(int x) { return x * 3 + 1; }
static __attribute__((noinline, noclone)) int hidden(int x) { return x * 5 + exported(x); }
int main(int argc, char **argv) { return hidden(argc); }
";

struct Setting {
    build: Build,
    file: String,
    exported: Symbol,
    hidden: Symbol,
}

fn setting() -> Setting {
    let build = Build::new("program", "c", SOURCE, &["-O1", "-g", "-rdynamic"]);
    let (file, exported, hidden) = (symbol_file(&build), build.symbol("exported"), build.symbol("hidden"));
    build.tool("strip", &["--strip-all", "program"]);
    Setting {
        build,
        file,
        exported,
        hidden,
    }
}

impl Setting {
    fn server(&self, config: ServerConfig) -> SymbolServer {
        let path = self.build.binary.to_str().unwrap().to_owned();
        let library = Library {
            name: "program".to_owned(),
            path: path.clone(),
            debug_name: "program".to_owned(),
            debug_path: path,
            breakpad_id: debug_id(&self.build),
            code_id: Some(self.build.build_id()),
            arch: Some("x86_64".to_owned()),
        };
        let named = Named {
            libraries: vec![library],
            ..Named::default()
        };
        SymbolServer::new(config, move || Ok(named.clone())).unwrap()
    }

    /// The result for these addresses.
    fn ask(&self, server: &SymbolServer, addresses: &[u32]) -> Value {
        let stack: Vec<_> = addresses.iter().map(|address| json!([0, address])).collect();
        let library = ["program".to_owned(), debug_id(&self.build)];
        let question = json!({"jobs": [{"memoryMap": [library], "stacks": [stack]}]}).to_string();
        let answer = server.answer(Query::Symbolicate, question.as_bytes());
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        answer["results"][0].clone()
    }

    fn is_found(&self, result: &Value) -> bool {
        result["found_modules"][format!("program/{}", debug_id(&self.build))] == true
    }
}

#[test]
fn only_symbols_that_contain_an_address_name_it() {
    let setting = setting();
    let server = setting.server(ServerConfig::default());
    let (exported, hidden) = (setting.exported.start, setting.hidden.start);
    let result = setting.ask(&server, &[exported, hidden]);
    assert!(setting.is_found(&result), "{result}");
    let frames = &result["stacks"][0];
    assert_eq!(frames[0]["function"], "exported");
    assert_eq!(frames[1]["function"], Value::Null, "{result}");
    let result = setting.ask(&server, &[hidden]);
    assert!(!setting.is_found(&result), "nothing to replace: {result}");
}

/// The front end knows the libraries of functions with names only by their build id.
#[test]
fn a_library_without_a_debug_id_is_found_by_its_build_id() {
    let setting = setting();
    let server = setting.server(ServerConfig::default());
    let ask = |query, question: &Value| -> Value {
        serde_json::from_slice(&server.answer(query, question.to_string().as_bytes())).unwrap()
    };
    let (start, size) = (setting.exported.start, setting.exported.size);
    let asm = |id: &str| {
        let question = json!({
            "debugName": id, "debugId": "", "startAddress": format!("{start:#x}"), "size": format!("{size:#x}"),
        });
        ask(Query::Asm, &question)
    };
    let code = asm(&setting.build.build_id());
    assert!(
        code["instructions"].as_array().is_some_and(|code| code.len() > 1),
        "{code}"
    );
    assert_eq!(asm("0123")["error"], "there is no such library in the profile");
    let question = json!({
        "debugName": setting.build.build_id(), "debugId": "", "moduleOffset": format!("{start:#x}"), "file": "program.c",
    });
    let source = ask(Query::Source, &question);
    assert_eq!(
        source["error"], "Don't have any debug info for the requested library",
        "it is stripped"
    );
}

#[test]
fn a_symbol_server_names_the_rest() {
    let setting = setting();
    let path = format!("/program/{}/program.sym", debug_id(&setting.build));
    let servers = Server::start(&path, Answer::File(setting.file.clone().into(), true));
    let cache = tempfile::tempdir().unwrap();
    let server = setting.server(ServerConfig {
        symbol_servers: Some(servers.config(cache.path().join("cache"))),
        ..ServerConfig::default()
    });
    let result = setting.ask(&server, &[setting.exported.start, setting.hidden.start]);
    assert!(setting.is_found(&result), "{result}");
    for (frame, (name, line)) in [("exported", 2), ("hidden", 3)].into_iter().enumerate() {
        let frame = &result["stacks"][0][frame];
        assert_eq!(
            (&frame["function"], &frame["line"]),
            (&json!(name), &json!(line)),
            "{result}"
        );
    }
}
