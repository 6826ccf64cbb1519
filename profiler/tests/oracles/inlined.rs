//! A chain of inlined functions with known lines: `outer` contains `middle`, which contains
//! `inner`.
use std::hint::black_box;
use std::time::{Duration, Instant};

#[inline(always)]
fn inner(mut x: u64, rounds: u64) -> u64 {
    // BEGIN inner
    for _ in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    }
    // END inner
    x
}

#[inline(always)]
fn middle(x: u64) -> u64 {
    // BEGIN middle
    inner(x, 50_000)
    // END middle
}

#[inline(never)]
fn outer(x: u64) -> u64 {
    // BEGIN outer
    middle(x)
    // END outer
}

mod generic {
    pub trait Step {
        fn step(&mut self);
    }

    #[inline(never)]
    pub fn drive<T: Step>(steps: &mut T) {
        steps.step();
    }
}

struct Counter(u64);

impl generic::Step for Counter {
    #[inline(never)]
    fn step(&mut self) {
        self.0 = outer(self.0);
    }
}

fn main() {
    let end = Instant::now() + Duration::from_millis(1000);
    let mut counter = Counter(1);
    while Instant::now() < end {
        generic::drive(&mut counter);
    }
    println!("{}", counter.0);
}
