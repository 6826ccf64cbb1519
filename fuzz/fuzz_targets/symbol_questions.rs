//! Questions made of anything, about a library that is there: this program itself.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use symbols::server::{Library, Named, Query, ServerConfig, SymbolServer};

/// Known by this name and id, whatever its own: nothing may be answered from the file, however it is asked.
const NAME: &str = "a";
const ID: &str = "0123456789ABCDEF0123456789ABCDEF0";

static SERVER: LazyLock<SymbolServer> = LazyLock::new(|| {
    let path = std::env::current_exe().unwrap().display().to_string();
    let library = Library {
        name: NAME.into(),
        debug_name: NAME.into(),
        debug_path: path.clone(),
        path,
        breakpad_id: ID.into(),
        code_id: Some("0123456789abcdef0123456789abcdef01234567".into()),
        arch: Some("x86_64".into()),
    };
    let named = Named {
        libraries: vec![library],
        sources: ["/etc/passwd".to_owned()].into(),
    };
    SymbolServer::new(ServerConfig::default(), move || Ok(named.clone())).unwrap()
});

fuzz_target!(|data: &[u8]| {
    let Some((which, question)) = data.split_first() else {
        return;
    };
    let query = [Query::Symbolicate, Query::Source, Query::Asm][usize::from(which % 3)];
    let answer = SERVER.answer(query, question);
    let text = String::from_utf8(answer).unwrap();
    assert!(!text.contains("root:"));
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
});
