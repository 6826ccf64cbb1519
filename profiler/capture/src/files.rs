//! The files that recorded programs map or write, opened for the recorder and never parsed here. The program chooses
//! their names, mounts and servers.

pub mod detached;
pub mod open;
pub mod opener;
pub mod perf_maps;
pub mod same_file;
