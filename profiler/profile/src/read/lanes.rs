//! The facts of all threads of a profile, merged in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;
use std::slice::Iter;

use super::markers::Marked;
use base::addr::Timestamp;
use fact::{FactSink, FaultFact, Mark, PagesReadFact, SampleFact, Tables, WaitFact};

/// Facts of one thread.
#[derive(Debug)]
pub struct Lane {
    /// In ascending order of times.
    pub samples: Vec<SampleFact>,
    /// The facts from which markers were created.
    pub marked: Marked,
    /// In ascending order of ends.
    pub waits: Vec<WaitFact>,
}

/// The facts of a thread that remain.
struct Rest<'l> {
    marks: Peekable<Iter<'l, Mark>>,
    reads: Peekable<Iter<'l, PagesReadFact>>,
    faults: Peekable<Iter<'l, FaultFact>>,
    waits: Peekable<Iter<'l, WaitFact>>,
    samples: Peekable<Iter<'l, SampleFact>>,
}

/// Emits every fact: one thread may map what another one read, so the threads can't be emitted one after the other.
pub fn replay(lanes: &[Lane], tables: &Tables, sink: &mut dyn FactSink) {
    let mut rest: Vec<Rest<'_>> = lanes.iter().map(Rest::of).collect();
    let first = rest.iter_mut().enumerate();
    let mut next: BinaryHeap<_> = first
        .filter_map(|(lane, rest)| Some(Reverse((rest.time()?, lane))))
        .collect();
    while let Some(Reverse((_, lane))) = next.pop() {
        let until = next.peek().map_or(Timestamp(u64::MAX), |Reverse((time, _))| *time);
        let Some(rest) = rest.get_mut(lane) else { continue };
        while let Some(time) = rest.time() {
            if time > until {
                next.push(Reverse((time, lane)));
                break;
            }
            rest.hand_out(time, tables, sink);
        }
    }
}

impl<'l> Rest<'l> {
    fn of(lane: &'l Lane) -> Self {
        Self {
            marks: lane.marked.marks.iter().peekable(),
            reads: lane.marked.reads.iter().peekable(),
            faults: lane.marked.faults.iter().peekable(),
            waits: lane.waits.iter().peekable(),
            samples: lane.samples.iter().peekable(),
        }
    }

    /// The time of the next fact; `None`: there is none.
    fn time(&mut self) -> Option<Timestamp> {
        let times = [
            self.marks.peek().map(|mark| mark.start),
            self.reads.peek().map(|read| read.time),
            self.faults.peek().map(|fault| fault.end()),
            self.waits.peek().map(|wait| wait.end),
            self.samples.peek().map(|sample| sample.time),
        ];
        times.into_iter().flatten().min()
    }

    /// Emits all facts of that time. The pages that a fault read precede it.
    fn hand_out(&mut self, time: Timestamp, tables: &Tables, sink: &mut dyn FactSink) {
        while let Some(mark) = self.marks.next_if(|mark| mark.start <= time) {
            sink.mark(tables, mark);
        }
        while let Some(read) = self.reads.next_if(|read| read.time <= time) {
            sink.pages_read(tables, read);
        }
        while let Some(fault) = self.faults.next_if(|fault| fault.end() <= time) {
            sink.fault(tables, fault);
        }
        while let Some(wait) = self.waits.next_if(|wait| wait.end <= time) {
            sink.wait(tables, wait);
        }
        while let Some(sample) = self.samples.next_if(|sample| sample.time <= time) {
            sink.sample(tables, sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fact::fault::PageRange;
    use fact::{MappedFileId, ThreadId, fixtures};

    #[derive(Default)]
    struct Order(Vec<(&'static str, u64)>);

    impl FactSink for Order {
        fn sample(&mut self, _: &Tables, _: &SampleFact) {}

        fn mark(&mut self, _: &Tables, _: &Mark) {}

        fn fault(&mut self, _: &Tables, fault: &FaultFact) {
            self.0.push(("fault", fault.end().0));
        }

        fn pages_read(&mut self, _: &Tables, read: &PagesReadFact) {
            self.0.push(("read", read.time.0));
        }
    }

    fn lane(faults: &[u64], reads: &[u64]) -> Lane {
        let fault = |time: &u64| FaultFact {
            start: Timestamp(*time),
            ..fixtures::fault()
        };
        let read = |time: &u64| PagesReadFact {
            time: Timestamp(*time),
            thread: ThreadId(0),
            file: MappedFileId(0),
            pages: PageRange { first: 0, count: 1 },
            by: fact::PagesBy::Fault,
            order: Some(0),
        };
        Lane {
            samples: Vec::new(),
            marked: Marked {
                marks: Vec::new(),
                faults: faults.iter().map(fault).collect(),
                reads: reads.iter().map(read).collect(),
            },
            waits: Vec::new(),
        }
    }

    #[test]
    fn lanes_are_assigned_by_time_with_reads_before_faults() {
        let lanes = [lane(&[5, 9], &[]), lane(&[], &[]), lane(&[4, 7, 9], &[1, 7])];
        let mut order = Order::default();
        replay(&lanes, &Tables::default(), &mut order);
        let expected = [
            ("read", 1),
            ("fault", 4),
            ("fault", 5),
            ("read", 7),
            ("fault", 7),
            ("fault", 9),
            ("fault", 9),
        ];
        assert_eq!(order.0, expected);
    }
}
