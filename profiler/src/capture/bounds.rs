//! The instants at which a recording begins and ends. Attaching and detaching take a while, hook by hook, as does looking up who
//! exists; before the one and after the other the programs keep track of who is recorded, and of nothing else.

use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use aya::Ebpf;
use aya::maps::{Array, MapData};
use profiler_common::scope;

use super::procfs;
use crate::addr::{Timestamp, ns};

/// From the decision to the instant: by then every CPU reads it.
const LEAD: Duration = Duration::from_millis(1);

/// What the programs know of both.
pub struct Bounds(Array<MapData, u64>);

impl Bounds {
    /// Takes the map out of the object.
    ///
    /// # Errors
    /// When it is missing.
    pub fn new(ebpf: &mut Ebpf) -> anyhow::Result<Self> {
        let map = ebpf
            .take_map("BOUNDS")
            .context("the eBPF object has no map BOUNDS: run `scripts/build-ebpf`")?;
        Ok(Self(Array::try_from(map)?))
    }

    /// Sets the beginning, and returns once it has come.
    ///
    /// # Errors
    /// When the kernel refuses to take it.
    pub fn begin(&mut self) -> anyhow::Result<Timestamp> {
        self.set(scope::BEGINNING)
    }

    /// As [`Self::begin`], for the end.
    ///
    /// # Errors
    /// As above.
    pub fn end(&mut self) -> anyhow::Result<Timestamp> {
        self.set(scope::END)
    }

    fn set(&mut self, place: u32) -> anyhow::Result<Timestamp> {
        let planned = Timestamp(procfs::now().0.saturating_add(ns(LEAD)));
        self.0.set(place, planned.0, 0)?;
        // Had we lost the CPU in between, some programs would have known of it in time, and others from now on.
        let instant = planned.max(procfs::now());
        loop {
            let left = instant.since(procfs::now());
            if left.is_zero() {
                return Ok(instant);
            }
            thread::sleep(left);
        }
    }
}
