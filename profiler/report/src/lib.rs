//! Reports about facts: the tables and metrics that subcommands print.

pub mod check;
pub mod diff;
pub mod dirty;
pub mod explorer;
pub mod export;
pub mod faults;
pub mod findings;
pub mod functions;
pub mod grid;
pub mod histogram;
pub mod interchange;
pub mod io;
pub mod lifetime;
pub mod lookup;
pub mod metrics;
pub mod order;
pub mod preload;
pub mod privacy;
pub mod repeat;
pub mod select;
pub mod smaps;
pub mod sorted;
pub mod summary;
pub mod text;
pub mod waits;

pub use summary::Summary;
