//! Why a profile could not be written or read.

use std::io;

/// Why a profile could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output failed.
    #[error("the profile could not be written")]
    Io(#[from] io::Error),
    /// The front end rejects a profile without threads.
    #[error("no thread was recorded, so there is nothing to show; see `ngmi doctor`")]
    Empty,
    /// A table has more than 2³¹ rows.
    #[error("the profile would be too large for the web page; record for a shorter time or with a lower rate (-F)")]
    TooLarge,
    /// Tables refer to rows that they do not have: a bug in ngmi, or a damaged log.
    #[error("{0} does not exist; please report this with the event log (--keep-events)")]
    Inconsistent(&'static str),
}

/// Why a profile could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input failed, is not a gzip file, or is too large.
    #[error("the profile is damaged or cut off; copy or record it again")]
    Io(#[from] io::Error),
    /// The input is not JSON, or does not have the structure of a profile.
    #[error("not a profile")]
    Json(#[from] serde_json::Error),
    /// The profile is from another program.
    #[error(
        "this profile was not written by ngmi: it contains no page faults, waits or requests; open it at https://profiler.firefox.com instead"
    )]
    Foreign,
    /// The profile is from another version of ngmi or of the format.
    #[error("this profile has format {format} and ngmi section {section:?}; read it with the ngmi that wrote it")]
    Version {
        /// `meta.preprocessedProfileVersion`
        format: u32,
        /// Version of the section, if it is known already.
        section: Option<u32>,
    },
    /// Parts of the profile contradict each other.
    #[error(
        "the profile's {0} is inconsistent with the rest: it is damaged, or the web page changed it when saving; \
         use the file that ngmi wrote"
    )]
    Damaged(&'static str),
}
