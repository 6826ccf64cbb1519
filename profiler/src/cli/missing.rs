//! Messages of subcommands about a recording that contains no events of their kind, or fewer than
//! occurred.

use profiler_common::Loss;

use crate::fact::Recording;
use crate::plural;
use crate::report::text::count;
use crate::terminal::print_note;

/// The event kind that a subcommand reports.
pub struct About {
    /// Plural name of the events.
    pub name: &'static str,
    /// Event kind of their hooks.
    pub noun: &'static str,
    /// Part of the names of the hooks that indicate tracing; empty: all of them do.
    pub hook: &'static str,
    /// Reason for no events although a hook traced them; `None`: the hooks are always attached, and
    /// indicate nothing.
    pub watched: Option<&'static str>,
    /// Reason for no events where no hook was tried, and how to record some.
    pub not_asked_for: &'static str,
}

impl About {
    /// Why a recording contains no events of the `seen` ones, and how to get a recording with some;
    /// continues "... contains no X".
    pub fn why_none(&self, recording: &Recording, seen: u64) -> String {
        if seen > 0 {
            let seen = count(seen);
            return format!(", although {seen} occurred: use the event log instead (`ngmi record --keep-events`)");
        }
        if let Some(chunks) = recording.lost(Loss::LogDamaged) {
            let damaged = plural::loss(Loss::LogDamaged.name(), chunks);
            return format!(": the log is damaged ({damaged}); record again");
        }
        let hooks = || recording.hooks.iter().filter(|hook| hook.noun == self.noun);
        if let Some(watched) = self.watched
            && hooks().any(|hook| hook.refused.is_none() && hook.hook.contains(self.hook))
        {
            return watched.to_owned();
        }
        let Some((hook, reason)) = hooks().find_map(|hook| Some((hook, hook.refused.as_deref()?))) else {
            return self.not_asked_for.to_owned();
        };
        let how = hook
            .remedy
            .as_deref()
            .unwrap_or("`ngmi doctor` shows what this machine supports");
        format!(": the kernel refused {} ({reason}); {how}", hook.hook)
    }

    /// Warns if the profile contains only `here` of the `seen` events.
    pub fn warn_of_budget(&self, here: u64, seen: u64) {
        if seen > here {
            print_note(format_args!(
                "the profile contains {} of the {} recorded {}; the event log (`--keep-events`) has all of them",
                count(here),
                count(seen),
                self.name
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::HookStatus;

    const SWITCHES: About = About {
        name: "waits",
        noun: "switch",
        hook: "",
        watched: None,
        not_asked_for: "; record them",
    };

    #[test]
    fn absence_is_explained_by_the_hooks() {
        let hook = |refused: Option<&str>, remedy: Option<&str>| HookStatus {
            noun: "switch".to_owned(),
            hook: "tp".to_owned(),
            refused: refused.map(str::to_owned),
            remedy: remedy.map(str::to_owned),
        };
        let of = |hooks: &[HookStatus]| Recording {
            hooks: hooks.to_vec(),
            ..Recording::default()
        };
        let faults = About {
            watched: Some(": tracing was on"),
            ..SWITCHES
        };
        let both = of(&[hook(Some("EPERM"), Some("be root")), hook(None, None)]);
        assert_eq!(SWITCHES.why_none(&both, 0), ": the kernel refused tp (EPERM); be root");
        assert_eq!(faults.why_none(&both, 0), ": tracing was on");
        let other = About {
            hook: "sched_wak",
            ..faults
        };
        assert_eq!(other.why_none(&of(&[hook(None, None)]), 0), "; record them");
        let refused = of(&[hook(Some("EPERM"), None)]);
        let doctor = ": the kernel refused tp (EPERM); `ngmi doctor` shows what this machine supports";
        assert_eq!(faults.why_none(&refused, 0), doctor);
        assert_eq!(faults.why_none(&of(&[]), 0), "; record them");
        assert!(
            faults
                .why_none(&both, 1)
                .starts_with(", although 1 occurred: use the event log")
        );
    }
}
