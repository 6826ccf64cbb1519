//! What every layer shares: events and their log, unwind tables as bytes, and small tools.
//!
//! An event log is written and read one event at a time:
//!
//! ```
//! use std::io::Cursor;
//!
//! use base::event::format::ChunkKind;
//! use base::event::read::LogReader;
//! use base::event::write::LogWriter;
//! use base::event::{Event, Header, TaskNew};
//!
//! # let header = Header {
//! #     start: base::addr::Timestamp(0), scope: "command".into(), command: vec!["cat".into()], hooks: Vec::new(),
//! #     ngmi_version: String::new(), start_unix_ms: 0, kernel: String::new(), arch: "x86_64".into(), page_size: 4096,
//! #     boot_id: String::new(), cpus: 1, sample_hz: 1000, sample_event: "cpu-clock".into(), stack_copy: 0,
//! # };
//! let mut log = LogWriter::new(Vec::new(), &header)?;
//! log.event(&Event::TaskNew(TaskNew { name: b"cat".to_vec(), ..TaskNew::default() }))?;
//! let mut log = LogReader::new(Cursor::new(log.finish()?))?;
//! assert_eq!(log.header().map(|header| header.command[0].as_str()), Some("cat"));
//! let mut events = log.events(&[ChunkKind::Events]);
//! assert!(matches!(events.next_event()?, Some(Event::TaskNew(task)) if task.name == b"cat"));
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod addr;
pub mod block_pages;
pub mod event;
pub mod hash;
pub mod hex;
pub mod id;
pub mod intern;
pub mod named;
pub mod owner;
pub mod plural;
pub mod similar;
pub mod table;
