//! Where a finished profile is opened: the one place that knows the profiler's address.

/// The Firefox Profiler's front end.
pub const PROFILER_ORIGIN: &str = "https://profiler.firefox.com";
