//! Whose a cgroup is, by its path: the unit of systemd, the container and the pod of Kubernetes.
//!
//! Sources: `cg_path_get_unit` and `cg_unescape` in systemd (src/basic/cgroup-util.c); the cgroup managers of runc, crun, containerd, CRI-O,
//! Podman and LXC; `GetPodContainerName` of the kubelet. Whoever may create a cgroup may imitate all of them.

/// Suffixes of units that have a cgroup, other than slices (systemd.unit(5)).
const UNITS: [&str; 6] = [".service", ".scope", ".socket", ".mount", ".swap", ".busname"];
/// Suffix of groups of units.
const SLICE: &str = ".slice";
/// What comes before a container's id in the name of its cgroup.
const RUNTIMES: [&str; 6] = [
    "docker-",
    "libpod-",
    "cri-containerd-",
    "crio-",
    "nerdctl-",
    "containerd-",
];
/// Hexadecimal digits of a container's id.
const ID_LEN: usize = 64;

/// Whose a cgroup is; nothing that is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    /// The unit of systemd, of a user if it belongs to a user's manager.
    pub unit: Option<String>,
    /// The container's id or, of LXC and systemd-nspawn, its name.
    pub container: Option<String>,
    /// The uid of the pod.
    pub pod: Option<String>,
}

/// Whose the cgroup with this path is.
pub fn of(path: &str) -> Owner {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).map(unescaped).collect();
    Owner {
        unit: unit(&parts).map(str::to_owned),
        container: container(&parts),
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

fn container(parts: &[&str]) -> Option<String> {
    let id = parts.iter().rev().find_map(|part| container_id(part));
    let named = || {
        let after = |prefix: &str| parts.iter().rev().find_map(|part| part.strip_prefix(prefix));
        let below_lxc = || {
            parts
                .iter()
                .position(|part| *part == "lxc")
                .and_then(|place| parts.get(place + 1).copied())
        };
        let machine = || Some(after("machine-")?.strip_suffix(".scope")?).filter(|name| !name.starts_with("qemu"));
        let nspawn = || after("systemd-nspawn@")?.strip_suffix(".service");
        let name = after("lxc.payload.").or_else(below_lxc).map(str::to_owned);
        name.or_else(|| machine().or_else(nspawn).map(unquoted))
    };
    id.or_else(named)
}

/// The id in the name of a container's cgroup.
fn container_id(part: &str) -> Option<String> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    // `SLICE:cri-containerd:ID`, where a runtime takes what the kubelet says for systemd as a path.
    let part = part.rsplit(':').next().unwrap_or(part);
    let id = RUNTIMES
        .iter()
        .find_map(|prefix| part.strip_prefix(prefix))
        .unwrap_or(part);
    (id.len() == ID_LEN && is_hex(id)).then(|| id.to_owned())
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
            let expected = Owner {
                unit: some(unit),
                container: some(container),
                pod: some(pod),
            };
            assert_eq!(of(&full(path)), expected, "{path}");
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
