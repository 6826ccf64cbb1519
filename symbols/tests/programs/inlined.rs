//! Functions inlined into each other at known lines.
use std::hint::black_box;

struct Counter {
    total: u64,
}

impl Counter {
    #[inline(always)]
    fn add(&mut self, value: u64) {
        self.total = black_box(self.total + value); // line 11: the innermost
    }
}

#[inline(always)]
fn twice(counter: &mut Counter, value: u64) {
    counter.add(value * 2); // line 17: calls add
}

#[inline(never)]
fn busy_loop(rounds: u64) -> u64 {
    let mut counter = Counter { total: 0 };
    for round in 0..rounds {
        twice(&mut counter, black_box(round)); // line 24: calls twice
    }
    counter.total
}

fn main() {
    std::process::exit((busy_loop(std::env::args().count() as u64) & 1) as i32);
}
