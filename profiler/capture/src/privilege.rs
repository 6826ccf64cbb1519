//! What may be recorded, and for whom: the terms, the limits of users without root, and reading with another user's
//! rights.

pub(crate) mod file_capabilities;
pub mod require;
pub mod rights;
pub mod terms;
