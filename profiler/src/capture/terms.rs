//! The terms of a recording: everything that decides whose memory may be in the log. They are on the command line of the privileged half, which root or
//! sudo starts, so that no message can widen them: whoever takes the socket from the other half gets nothing more than that half was to have.

use serde::{Deserialize, Serialize};

use super::disks::BlockMode;
use super::faults::Faults;
use super::waits::OffCpu;

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// The process that `Start` names, which waits to become the command, and everything that it starts.
    Command,
    /// Running processes: their threads, and the children that they start from now on.
    Pids(Vec<u32>),
    /// Everything.
    System,
}

/// How to record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// What.
    pub scope: Scope,
    /// The ordinary user that the other half becomes, or is: the command is a process of this user, and the log is this user's to read. `None`: root, or
    /// whoever was lent capabilities.
    pub user: Option<u32>,
    /// Samples per second and CPU.
    pub sample_hz: u32,
    /// Bytes of stack to copy at most.
    pub stack_copy: u32,
    /// Copy the stack even where it was walked, to check the walks.
    pub check_walks: bool,
    /// Which page faults, and by which hooks.
    pub faults: Faults,
    /// Which waits.
    pub off_cpu: OffCpu,
    /// Which block requests.
    pub block: BlockMode,
    /// Have the kernel map no page around a fault meanwhile, on the whole machine.
    pub exact_touch: bool,
    /// Count the time in our programs all the time, instead of a part of it.
    pub self_account: bool,
    /// Thread groups that are never recorded: the record half.
    pub exclude_pids: Vec<u32>,
}

impl Terms {
    /// As the command line has them.
    ///
    /// # Errors
    /// When they are not what [`Self::to_word`] makes.
    pub fn parse(word: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(word)
    }

    /// For the command line.
    ///
    /// # Errors
    /// Never, for these types.
    pub fn to_word(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// What the command, or a process that was named, starts and its user may not look into is left out: set-user-id programs, and those that can't be read.
    pub fn hides(&self) -> bool {
        self.user.is_some() && self.scope != Scope::System
    }
}
