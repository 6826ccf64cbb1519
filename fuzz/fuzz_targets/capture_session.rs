//! Arbitrary sequences of messages to the privileged helper: nothing happens that the terms do not allow.
//!
//! The first line has the terms; each further line is a message, and one that begins with `+` carries a descriptor.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use profiler::capture::socket::protocol::{Action, Protocol};
use profiler::capture::space::spaces::Code;
use profiler::capture::privilege::terms::{Scope, Terms};
use profiler::capture::socket::wire::Request;

fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|byte| *byte == b'\n');
    let terms = lines.next().and_then(|line| std::str::from_utf8(line).ok());
    let Some(terms) = terms.and_then(|line| Terms::parse(line).ok()) else {
        return;
    };
    assert_eq!(Terms::parse(&terms.to_word().unwrap()).unwrap(), terms);
    let mut protocol = Protocol::new(&terms);
    let (mut has_begun, mut has_ended, mut answered) = (false, false, HashSet::new());
    for (number, line) in lines.enumerate() {
        let (message, descriptor) = match line.strip_prefix(b"+") {
            Some(message) => (message, Some(number)),
            None => (line, None),
        };
        let Ok(request) = serde_json::from_slice::<Request>(message) else {
            return; // a message that can't be read ends the recording
        };
        let action = protocol.accept(request.clone(), descriptor);
        if let Ok(action) = &action {
            assert!(!has_ended, "{action:?} after the end");
            assert_eq!(has_begun, !matches!(action, Action::Begin { .. }), "{action:?}");
        }
        match action {
            Err(_) => has_ended = true,
            Ok(Action::Begin { pids, log, .. }) => {
                let Request::Start(start) = request else { panic!("{request:?} begins a recording") };
                let allowed = match &terms.scope {
                    Scope::Command => start.pid.into_iter().collect(),
                    Scope::Pids(pids) => pids.clone(),
                    Scope::System | Scope::Selected(_) => Vec::new(),
                };
                assert!(start.pid.is_some() == (terms.scope == Scope::Command));
                assert_eq!((pids, Some(log)), (allowed, descriptor));
                has_begun = true;
            }
            Ok(Action::Table { code, of, table }) => {
                assert_eq!(Request::Table(of), request);
                assert_eq!(table, descriptor);
                assert!(code != Code::Made && answered.insert(code));
            }
            Ok(Action::NoTable(code)) => assert!(code != Code::Made && answered.insert(code)),
            Ok(Action::Ignore) => assert!(matches!(request, Request::Table(_) | Request::NoTable(_))),
            Ok(Action::End) => has_ended = true,
        }
    }
});
