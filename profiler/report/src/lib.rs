//! Reports about facts: the tables and metrics that subcommands print.
//!
//! Numbers and names as tables print them:
//!
//! ```
//! use report::text::{bytes, duration, fit};
//!
//! assert_eq!(duration(12_345_678), "12.3 ms");
//! assert_eq!(bytes(3_400_000), "3.40 MB");
//! assert!(fit("a long name of a function", 10).chars().count() <= 10);
//! ```

pub mod between;
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
pub mod locks;
pub mod lookup;
pub mod metrics;
pub mod order;
pub(crate) mod owner;
pub mod path;
pub mod preload;
pub mod privacy;
pub mod remedy;
pub mod repeat;
mod sample;
pub mod select;
pub mod smaps;
pub mod sorted;
pub mod summary;
pub mod text;
pub mod waits;

pub use summary::Summary;
