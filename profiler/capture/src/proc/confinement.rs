//! What keeps root from recording in a container: a user namespace, missing capabilities, or a filter of system calls.

use super::capabilities::{self, Set};

/// What a remedy says if capabilities are missing.
const GIVE_CAPABILITIES: &str = "in the pod's spec: `securityContext: {capabilities: {add: [BPF, PERFMON, SYS_PTRACE, SYSLOG]}}`; with docker: \
     `--cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE --cap-add SYSLOG` (docs/scope.md#in-a-container)";
const ALLOW_CALLS: &str = "a filter of system calls may forbid it; in the pod's spec: \
     `securityContext: {seccompProfile: {type: Unconfined}}`; with podman: `--cap-add SYS_ADMIN` (docs/scope.md#in-a-container)";
const LEAVE_NAMESPACE: &str = "run ngmi outside, or in a container that root started: those of users can't record";
/// `CAP_SYS_ADMIN` stands for the first two (`bpf_capable`, `perfmon_capable` in include/linux/capability.h).
const IN_CONTAINERS: [(&str, u32, bool); 4] = [
    ("BPF", 39, true),
    ("PERFMON", 38, true),
    ("SYS_PTRACE", 19, false),
    ("SYSLOG", 34, false),
];
const SYS_ADMIN: u32 = 21;

/// What root lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// Its rights are those of a user namespace.
    UserNamespace,
    /// These capabilities, by their names in container runtimes.
    Capabilities(Vec<&'static str>),
    /// Nothing, but some system calls may be refused.
    Filter,
}

impl Confinement {
    /// What this process, which has root's user id, lacks; `None`: nothing.
    pub fn of_root() -> Option<Self> {
        let read = |name| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        Self::found(
            &read("uid_map"),
            capabilities::permitted().unwrap_or_default(),
            &read("status"),
        )
    }

    fn found(users: &str, permitted: Set, status: &str) -> Option<Self> {
        // user_namespaces(7): the initial one has all users.
        let map: Vec<&str> = users.split_ascii_whitespace().collect();
        if !map.is_empty() && map != ["0", "0", "4294967295"] {
            return Some(Self::UserNamespace);
        }
        let has = |number| permitted.has_number(number);
        let missing = IN_CONTAINERS
            .iter()
            .filter(|(_, number, by_admin)| !(has(*number) || *by_admin && has(SYS_ADMIN)));
        let missing: Vec<&str> = missing.map(|(name, ..)| *name).collect();
        if !missing.is_empty() {
            return Some(Self::Capabilities(missing));
        }
        let filter = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        (filter.map(str::trim) == Some("2")).then_some(Self::Filter)
    }

    /// What is missing; `None`: it may work.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::UserNamespace => Some("this root is one of a user namespace only".to_owned()),
            Self::Capabilities(missing) => Some(format!("capabilities are missing: {}", missing.join(", "))),
            Self::Filter => None,
        }
    }

    /// What to do if the kernel refuses to record.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::UserNamespace => LEAVE_NAMESPACE,
            Self::Capabilities(_) => GIVE_CAPABILITIES,
            Self::Filter => ALLOW_CALLS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "         0          0 4294967295\n";

    #[test]
    fn what_root_lacks() {
        let found = |users: &str, permitted: u64, seccomp: &str| {
            Confinement::found(
                users,
                Set::from_bits(permitted),
                &format!("Name:\tx\nSeccomp:\t{seccomp}\n"),
            )
        };
        let four = 1 << 39 | 1 << 38 | 1 << 19 | 1 << 34;
        assert_eq!(found(ALL, u64::MAX, "0"), None);
        assert_eq!(found(ALL, four, "0"), None);
        assert_eq!(found(ALL, four, "2"), Some(Confinement::Filter));
        assert_eq!(
            found("0 1000 1\n1 100000 65536\n", u64::MAX, "0"),
            Some(Confinement::UserNamespace)
        );
        let missing = |bits| match found(ALL, bits, "2") {
            Some(Confinement::Capabilities(missing)) => missing.join(" "),
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(0), "BPF PERFMON SYS_PTRACE SYSLOG");
        assert_eq!(missing(four & !(1 << 34)), "SYSLOG");
        assert_eq!(missing(1 << SYS_ADMIN), "SYS_PTRACE SYSLOG");
    }
}
