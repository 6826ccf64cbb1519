//! Shows progress of the work on the page cache if that takes longer than a moment, and stops it when the user
//! interrupts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

/// Work that takes less shows no bar.
const MOMENT: Duration = Duration::from_secs(1);

/// A progress bar in bytes.
#[derive(Debug)]
pub struct Progress<'a> {
    interrupted: &'a AtomicBool,
    began: Instant,
    what: &'static str,
    total: u64,
    done: u64,
    bar: Option<ProgressBar>,
}

impl<'a> Progress<'a> {
    /// `total` in bytes.
    pub fn new(what: &'static str, total: u64, interrupted: &'a AtomicBool) -> Self {
        Self {
            interrupted,
            began: Instant::now(),
            what,
            total,
            done: 0,
            bar: None,
        }
    }

    /// Adds this many bytes.
    ///
    /// # Errors
    /// When the user pressed Ctrl-C.
    pub fn advance(&mut self, bytes: u64) -> Result<()> {
        if self.interrupted.load(Ordering::SeqCst) {
            bail!("interrupted before the recording began; nothing was recorded");
        }
        self.done = self.done.saturating_add(bytes).min(self.total);
        if self.bar.is_none() && self.began.elapsed() > MOMENT {
            let bar = ProgressBar::new(self.total).with_message(self.what);
            let style = ProgressStyle::with_template("{msg:>10} [{bar:40}] {bytes}/{total_bytes}");
            self.bar = Some(match style {
                Ok(style) => bar.with_style(style.progress_chars("=> ")),
                Err(_) => bar,
            });
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        }
        Ok(())
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
