//! The only code that knows the Firefox Profiler's format.
