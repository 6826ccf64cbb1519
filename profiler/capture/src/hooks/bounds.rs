//! The instants at which a recording begins and ends. Attaching and detaching take a while, hook by hook, and so does
//! listing the existing threads. Before the beginning and after the end the programs only keep track of which threads
//! are recorded.

use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use aya::Ebpf;
use aya::maps::{Array, MapData};
use profiler_common::scope;

use crate::proc::procfs;
use base::addr::{Timestamp, ns};

/// The delay from setting an instant until it is reached: by then every CPU reads it.
const LEAD: Duration = Duration::from_millis(1);

/// The map with which the programs learn both instants.
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

    /// Sets the beginning, and returns once it has been reached.
    ///
    /// # Errors
    /// When the kernel refuses the write.
    pub fn begin(&mut self) -> anyhow::Result<Timestamp> {
        self.set(scope::BEGINNING)
    }

    /// Sets the end, as [`Self::begin`] does the beginning.
    ///
    /// # Errors
    /// When the kernel refuses the write.
    pub fn end(&mut self) -> anyhow::Result<Timestamp> {
        self.set(scope::END)
    }

    fn set(&mut self, place: u32) -> anyhow::Result<Timestamp> {
        let planned = Timestamp(procfs::now().0.saturating_add(ns(LEAD)));
        self.0.set(place, planned.0, 0)?;
        // If we had lost the CPU in between, some programs would have learned of it in time, and others only now.
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
