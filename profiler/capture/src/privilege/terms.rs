//! The terms of a recording: everything that decides whose memory may be in the log. They are on the command line of
//! the privileged helper, which root or sudo starts, and no message can extend them: an attacker who takes over the
//! recorder's socket gains nothing beyond what the recorder was to have.

use serde::{Deserialize, Serialize};

use crate::hooks::disks::BlockMode;
use crate::hooks::faults::Faults;
use crate::hooks::governor::Limit;
use crate::hooks::waits::OffCpu;
use crate::proc::selection::Selection;

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// The process that `Start` names, which waits to become the command, and everything that it starts.
    Command,
    /// Running processes: their threads, and the children that they start from now on.
    Pids(Vec<u32>),
    /// Everything.
    System,
    /// Threads by what they are, whatever process they belong to. Only who may record everything may record these.
    Selected(Box<Selection>),
}

impl Scope {
    /// Whether any thread of the machine may belong to it.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, Self::System | Self::Selected(_))
    }
}

/// How to record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// What is recorded.
    pub scope: Scope,
    /// The ordinary user that the recorder becomes, or is: the command runs as this user, and this user may read the
    /// log. `None`: root, or a user with file capabilities.
    pub user: Option<u32>,
    /// Samples per second and CPU.
    pub sample_hz: u32,
    /// Bytes of stack to copy at most.
    pub stack_copy: u32,
    /// Copy the stack even where it was walked, to check the walks.
    pub check_walks: bool,
    /// Which page faults, and with which hooks.
    pub faults: Faults,
    /// Which waits.
    pub off_cpu: OffCpu,
    /// Which block requests.
    pub block: BlockMode,
    /// Have the kernel map no pages around faults meanwhile, on the whole machine.
    pub exact_touch: bool,
    /// Measure the time in our programs all the time, instead of a part of it.
    pub self_account: bool,
    /// Leave out what costs more than this; `None`: record everything.
    pub max_overhead: Option<Limit>,
    /// Thread groups that are never recorded: the recorder.
    pub exclude_pids: Vec<u32>,
}

impl Terms {
    /// Parses the form on the command line.
    ///
    /// # Errors
    /// When it was not written by [`Self::to_word`].
    pub fn parse(word: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(word)
    }

    /// The form for the command line.
    ///
    /// # Errors
    /// Never, for these types.
    pub fn to_word(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Whether programs that the user may not inspect are left out when the command or a named process starts them:
    /// set-user-id programs, and those without read permission.
    pub fn hides(&self) -> bool {
        self.user.is_some() && !self.scope.is_of_machine()
    }
}
