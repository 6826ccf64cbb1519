//! The events of a log by time. A separate thread reads, decodes and sorts them, while the caller works on earlier ones.

use std::io::{self, Read, Seek};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Builder};

use base::event::Event;
use base::event::format::ChunkKind;
use base::event::order::{Order, size_of_event};
use base::event::read::LogReader;

/// Bytes of events passed between threads at once.
const PIECE: usize = 1 << 18;
/// Maximum number of pieces in flight.
const PIECES: usize = 4;

/// Events by time.
#[derive(Default)]
struct Piece {
    events: Vec<Event<'static>>,
    /// Their approximate size.
    bytes: usize,
    /// Where the log was read, in bytes of [`LogReader::len_bytes`].
    position: u64,
}

/// Passes each event to `take`, by time, or after each few of them the position of the reader in bytes of [`LogReader::len_bytes`].
/// Returns the number of events that arrived too late: [`profiler_common::Loss::EventLate`].
///
/// # Errors
/// The log can't be read, or no thread can be started.
pub fn each<R: Read + Seek + Send>(log: &mut LogReader<R>, mut take: impl FnMut(Step<'_>)) -> io::Result<u64> {
    let (sender, pieces) = sync_channel(PIECES);
    thread::scope(|scope| {
        let reading = Builder::new().name("log".into());
        let reading = reading.spawn_scoped(scope, move || read(log, &sender))?;
        for piece in pieces {
            piece.events.iter().for_each(|event| take(Step::Event(event)));
            take(Step::Position(piece.position));
        }
        match reading.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A step of reading.
pub enum Step<'a> {
    /// The next event.
    Event(&'a Event<'static>),
    /// How far the log was read.
    Position(u64),
}

fn read<R: Read + Seek>(log: &mut LogReader<R>, sender: &SyncSender<Piece>) -> io::Result<u64> {
    let mut order = Order::default();
    let mut events = log.events(&[ChunkKind::Events]);
    let mut piece = Piece::default();
    while let Some(event) = events.next_event()? {
        order.push(event);
        if !pass_on(&mut order, &mut piece, events.position(), sender) {
            break; // the caller panics
        }
    }
    order.finish();
    pass_on(&mut order, &mut piece, events.position(), sender);
    let _ = sender.send(piece);
    Ok(order.late())
}

/// Passes the events on that are ready; false: the receiver is gone.
fn pass_on(order: &mut Order, piece: &mut Piece, position: u64, sender: &SyncSender<Piece>) -> bool {
    while let Some(event) = order.pop() {
        piece.bytes += size_of_event(&event);
        piece.events.push(event);
        piece.position = position;
        if piece.bytes >= PIECE && sender.send(std::mem::take(piece)).is_err() {
            return false;
        }
    }
    true
}
