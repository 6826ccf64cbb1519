//! The unit of systemd, the container and the pod of Kubernetes that a cgroup belongs to, by its path.
//!
//! Sources: `cg_path_get_unit` and `cg_unescape` in systemd (src/basic/cgroup-util.c); the cgroup managers of runc, crun, containerd, CRI-O,
//! Podman and LXC; `GetPodContainerName` of the kubelet. Whoever may create a cgroup may imitate all of them.

/// Suffixes of units that have a cgroup, other than slices (systemd.unit(5)).
const UNITS: [&str; 6] = [".service", ".scope", ".socket", ".mount", ".swap", ".busname"];
/// Suffix of groups of units.
const SLICE: &str = ".slice";
/// What comes before a container's id in the name of its cgroup, and the runtime that names it so.
const RUNTIMES: [(&str, &str); 7] = [
    ("docker-", DOCKER),
    ("libpod-payload-", "podman"),
    ("libpod-", "podman"),
    ("cri-containerd-", CONTAINERD),
    ("crio-", "cri-o"),
    ("nerdctl-", CONTAINERD),
    ("containerd-", CONTAINERD),
];
const DOCKER: &str = "docker";
const CONTAINERD: &str = "containerd";
/// Runtime in an id as the kubelet writes it for systemd.
const OF_KUBELET: [(&str, &str); 2] = [("cri-containerd", CONTAINERD), ("crio", "cri-o")];
/// Hexadecimal digits of a container's id.
const ID_LEN: usize = 64;

/// What a cgroup belongs to, as far as its path shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    /// The unit of systemd, of a user if it belongs to a user's manager.
    pub unit: Option<String>,
    /// The container's id or, of LXC and systemd-nspawn, its name.
    pub container: Option<String>,
    /// The container's runtime: `docker`, `podman`, `containerd`, `cri-o`, `lxc` or `nspawn`.
    pub runtime: Option<&'static str>,
    /// The uid of the pod.
    pub pod: Option<String>,
}

/// What the cgroup with this path belongs to.
pub fn of(path: &str) -> Owner {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).map(unescaped).collect();
    let (container, runtime) = container(&parts).unzip();
    Owner {
        unit: unit(&parts).map(str::to_owned),
        container,
        runtime: runtime.flatten(),
        pod: parts.iter().rev().find_map(|part| pod(part)),
    }
}

/// Without the `_` that systemd puts before names which the kernel would reserve.
pub fn unescaped(part: &str) -> &str {
    part.strip_prefix('_').unwrap_or(part)
}

/// The first unit below the slices, and that of a user's manager below it.
fn unit<'p>(parts: &[&'p str]) -> Option<&'p str> {
    let is_unit = |part: &str| {
        UNITS
            .iter()
            .any(|suffix| part.len() > suffix.len() && part.ends_with(suffix))
    };
    let place = parts.iter().position(|part| !part.ends_with(SLICE))?;
    let found = *parts.get(place).filter(|part| is_unit(part))?;
    if found.starts_with("user@") {
        let below = parts.get(place + 1..).unwrap_or_default();
        return unit(below).or(Some(found));
    }
    Some(found)
}

/// The container's id or name, and its runtime.
fn container(parts: &[&str]) -> Option<(String, Option<&'static str>)> {
    let with_id = |part: &&str| container_id(part);
    if let Some((id, runtime)) = parts.iter().rev().find_map(with_id) {
        let in_docker = || parts.contains(&DOCKER).then_some(DOCKER);
        return Some((id, runtime.or_else(in_docker)));
    }
    let after = |prefix: &str| parts.iter().rev().find_map(|part| part.strip_prefix(prefix));
    let below_lxc = || {
        let place = parts.iter().position(|part| *part == "lxc")?;
        parts.get(place + 1).copied()
    };
    if let Some(name) = after("lxc.payload.").or_else(below_lxc) {
        return Some((name.to_owned(), Some("lxc")));
    }
    let machine = || Some(after("machine-")?.strip_suffix(".scope")?).filter(|name| !name.starts_with("qemu"));
    let nspawn = || after("systemd-nspawn@")?.strip_suffix(".service");
    let name = machine().or_else(nspawn).map(unquoted)?;
    Some((name, Some("nspawn")))
}

/// The id in the name of a container's cgroup, and the runtime that the name shows.
fn container_id(part: &str) -> Option<(String, Option<&'static str>)> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    // `SLICE:cri-containerd:ID`, where a runtime takes what the kubelet says for systemd as a path.
    if let Some((before, id)) = part.rsplit_once(':') {
        let named = before.rsplit(':').next().unwrap_or_default();
        let runtime = OF_KUBELET.iter().find(|(name, _)| *name == named);
        return is_id(id).then(|| (id.to_owned(), runtime.map(|(_, runtime)| *runtime)));
    }
    let prefixed = |(prefix, runtime): &(&str, &'static str)| Some((part.strip_prefix(prefix)?, Some(*runtime)));
    let (id, runtime) = RUNTIMES.iter().find_map(prefixed).unwrap_or((part, None));
    is_id(id).then(|| (id.to_owned(), runtime))
}

/// Whether this is a container's whole id, which is safe as the name of a file.
pub fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && is_hex(text)
}

/// `podUID`, or `kubepods-burstable-podUID.slice` with `_` for `-`.
fn pod(part: &str) -> Option<String> {
    let part = part.split(':').next().unwrap_or(part);
    let uid = match part.strip_suffix(SLICE) {
        Some(slice) if slice.starts_with("kubepods") => slice.rsplit_once("-pod")?.1,
        Some(_) => return None,
        None => part.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    // Of a static pod: the hash of its manifest.
    let is_uid = uid.len() == 36 && uid.split('-').map(str::len).eq([8, 4, 4, 4, 12]) || uid.len() == 32;
    (is_uid && is_hex(&uid.replace('-', ""))).then_some(uid)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Text with systemd's `\x2d` replaced.
fn unquoted(name: &str) -> String {
    let mut parts = name.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend([b"\\x", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f4e9a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789ab";
    const UID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

    /// Path, unit, container, pod. `ID` and `UID` stand for the above, `U_D` for the latter with `_`.
    const PATHS: &[(&str, &str, &str, &str)] = &[
        ("/", "", "", ""),
        ("/init.scope", "init.scope", "", ""),
        ("/system.slice/nginx.service", "nginx.service", "", ""),
        (
            "/system.slice/system-getty.slice/getty@tty1.service",
            "getty@tty1.service",
            "",
            "",
        ),
        (
            "/system.slice/system-serial\\x2dgetty.slice/serial-getty@ttyS0.service",
            "serial-getty@ttyS0.service",
            "",
            "",
        ),
        (
            "/system.slice/systemd-udevd.service/udev",
            "systemd-udevd.service",
            "",
            "",
        ),
        ("/system.slice/_cpu.service", "cpu.service", "", ""),
        ("/user.slice/user-1000.slice/session-2.scope", "session-2.scope", "", ""),
        (
            "/user.slice/user-1000.slice/user@1000.service",
            "user@1000.service",
            "",
            "",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/init.scope",
            "init.scope",
            "",
            "",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-firefox-2137.scope",
            "app-gnome-firefox-2137.scope",
            "",
            "",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service/inner",
            "x.service",
            "",
            "",
        ),
        ("/system.slice/docker-ID.scope", "docker-ID.scope", "ID", ""),
        ("/docker/ID", "", "ID", ""),
        ("/docker/ID/init", "", "ID", ""),
        ("/system.slice/docker.service", "docker.service", "", ""),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_D.slice/cri-containerd-ID.scope",
            "cri-containerd-ID.scope",
            "ID",
            "UID",
        ),
        (
            "/kubepods.slice/kubepods-podU_D.slice/crio-ID.scope",
            "crio-ID.scope",
            "ID",
            "UID",
        ),
        (
            "/kubepods.slice/kubepods-podU_D.slice/crio-ID.scope/container",
            "crio-ID.scope",
            "ID",
            "UID",
        ),
        (
            "/kubepods.slice/kubepods-podU_D.slice/crio-conmon-ID.scope",
            "crio-conmon-ID.scope",
            "",
            "UID",
        ),
        ("/kubepods/burstable/podUID/ID", "", "ID", "UID"),
        ("/kubepods/podUID/crio-ID", "", "ID", "UID"),
        (
            "/kubepods/besteffort/pod00112233445566778899aabbccddeeff/ID",
            "",
            "ID",
            "00112233445566778899aabbccddeeff",
        ),
        (
            "/system.slice/containerd.service/kubepods-burstable-podU_D.slice:cri-containerd:ID",
            "containerd.service",
            "ID",
            "UID",
        ),
        ("/default/ID", "", "ID", ""),
        ("/system.slice/nerdctl-ID.scope", "nerdctl-ID.scope", "ID", ""),
        ("/machine.slice/libpod-ID.scope", "libpod-ID.scope", "ID", ""),
        ("/machine.slice/libpod-ID.scope/container", "libpod-ID.scope", "ID", ""),
        (
            "/machine.slice/libpod-conmon-ID.scope",
            "libpod-conmon-ID.scope",
            "",
            "",
        ),
        ("/libpod_parent/libpod-ID", "", "ID", ""),
        ("/system.slice/web.service/libpod-payload-ID", "web.service", "ID", ""),
        ("/system.slice/web.service/runtime", "web.service", "", ""),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container",
            "libpod-ID.scope",
            "ID",
            "",
        ),
        (
            "/machine.slice/machine-debian\\x2d12.scope/payload",
            "machine-debian\\x2d12.scope",
            "debian-12",
            "",
        ),
        (
            "/machine.slice/systemd-nspawn@web.service/payload",
            "systemd-nspawn@web.service",
            "web",
            "",
        ),
        (
            "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope",
            "machine-qemu\\x2d1\\x2dvm.scope",
            "",
            "",
        ),
        ("/lxc.payload.web/system.slice/nginx.service", "", "web", ""),
        ("/lxc.monitor.web", "", "", ""),
        ("/lxc/web", "", "web", ""),
        ("/process_api/e9805d66d8c893f566080a899f8ce9a0", "", "", ""),
        ("/a.slice/.service", "", "", ""),
        ("/podman/pod", "", "", ""),
    ];

    #[test]
    fn paths_as_programs_create_them() {
        let full = |text: &str| {
            let text = text.replace("U_D", &UID.replace('-', "_")).replace("UID", UID);
            let text = text.replace("-ID", &format!("-{ID}")).replace("/ID", &format!("/{ID}"));
            let text = text.replace(":ID", &format!(":{ID}"));
            if text == "ID" { ID.to_owned() } else { text }
        };
        for (path, unit, container, pod) in PATHS {
            let some = |text: &str| (!text.is_empty()).then(|| full(text));
            let found = of(&full(path));
            let expected = Owner {
                unit: some(unit),
                container: some(container),
                runtime: found.runtime,
                pod: some(pod),
            };
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn runtimes() {
        for (path, runtime) in [
            ("/system.slice/docker-ID.scope", Some("docker")),
            ("/docker/ID/init", Some("docker")),
            ("/machine.slice/libpod-ID.scope/container", Some("podman")),
            ("/kubepods.slice/cri-containerd-ID.scope", Some("containerd")),
            (
                "/system.slice/containerd.service/x:cri-containerd:ID",
                Some("containerd"),
            ),
            ("/kubepods/podUID/crio-ID", Some("cri-o")),
            ("/kubepods/podUID/ID", None),
            ("/lxc.payload.web/init.scope", Some("lxc")),
            ("/machine.slice/systemd-nspawn@web.service/payload", Some("nspawn")),
            ("/system.slice/docker.service", None),
        ] {
            assert_eq!(of(&path.replace("ID", ID)).runtime, runtime, "{path}");
        }
    }

    #[test]
    fn escapes_of_systemd() {
        assert_eq!(unquoted("a\\x2db\\x5f"), "a-b_");
        assert_eq!(unquoted("\\x"), "\\x");
        assert_eq!(unquoted("a\\xzzb"), "a\\xzzb");
        assert_eq!(unquoted("é\\xc3\\xa9"), "éé");
    }
}
