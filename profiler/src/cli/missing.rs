//! What a verb says of a recording that holds none of what it is about, or fewer than were seen.

use super::terminal::tell;
use crate::fact::Recording;
use crate::report::text::count;

/// What a verb is about.
pub struct About {
    /// What they are called.
    pub name: &'static str,
    /// The noun of their hooks.
    pub noun: &'static str,
    /// A part of the names of those that say whether they were watched; empty: all do.
    pub hook: &'static str,
    /// Why there are none although a hook watched for them; `None`: the hooks are there in any case and do not tell.
    pub watched: Option<&'static str>,
    /// Why there are none where no hook was tried, and how to get some.
    pub not_asked_for: &'static str,
}

impl About {
    /// Why a recording has none of which so many were seen, and how to get one that has; it goes on after "... holds none".
    pub fn why_none(&self, recording: &Recording, seen: u64) -> String {
        if seen > 0 {
            let seen = count(seen);
            return format!(", though {seen} were seen: name the event log instead (`ngmi record --keep-events`)");
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
            .unwrap_or("`ngmi doctor` says what this machine allows");
        format!(": the kernel refused {} ({reason}); {how}", hook.hook)
    }

    /// A profile may hold only a part of them.
    pub fn warn_of_budget(&self, here: u64, seen: u64) {
        if seen > here {
            tell(format_args!(
                "the profile has room for {} of the {} {} that were seen; the event log (`--keep-events`) has them all",
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
        not_asked_for: "; ask for them",
    };

    #[test]
    fn why_there_are_none_is_what_the_hooks_say() {
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
            watched: Some(", though watched"),
            ..SWITCHES
        };
        let both = of(&[hook(Some("EPERM"), Some("be root")), hook(None, None)]);
        assert_eq!(SWITCHES.why_none(&both, 0), ": the kernel refused tp (EPERM); be root");
        assert_eq!(faults.why_none(&both, 0), ", though watched");
        let other = About {
            hook: "sched_wak",
            ..faults
        };
        assert_eq!(other.why_none(&of(&[hook(None, None)]), 0), "; ask for them");
        let refused = of(&[hook(Some("EPERM"), None)]);
        let doctor = ": the kernel refused tp (EPERM); `ngmi doctor` says what this machine allows";
        assert_eq!(faults.why_none(&refused, 0), doctor);
        assert_eq!(faults.why_none(&of(&[]), 0), "; ask for them");
        assert!(
            faults
                .why_none(&both, 1)
                .starts_with(", though 1 were seen: name the event log")
        );
    }
}
