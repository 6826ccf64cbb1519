//! Programs that are visible only in another mount namespace: it no longer exists when names are looked up.

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle};

/// Records `script` in a separate mount namespace, where it becomes the program `name`.
fn in_a_namespace(name: &str, script: &str) {
    let split = Oracle::c("split");
    let script = format!("set -e\nprogram={}\n{script}", split.as_ref().display());
    let outcome = Ngmi::record()
        .program("unshare", ["--mount", "--propagation", "private", "sh", "-c", &script])
        .run();
    outcome.expect_code(0);
    let profile = outcome.profile();
    let share = profile.main_of(name).share("takes_three_parts");
    assert!(share > 0.6, "{name}: named, and right: {share}");
}

#[test]
fn a_file_visible_only_in_the_container() {
    needs_capture!();
    in_a_namespace(
        "inside",
        "mount -t tmpfs none /mnt; cp $program /mnt/inside; exec /mnt/inside 600",
    );
}

#[test]
fn a_file_on_an_overlay() {
    needs_capture!();
    in_a_namespace(
        "layered",
        "mount -t tmpfs none /mnt; mkdir /mnt/lower /mnt/upper /mnt/work /mnt/merged; cp $program /mnt/lower/layered
         mount -t overlay -o lowerdir=/mnt/lower,upperdir=/mnt/upper,workdir=/mnt/work none /mnt/merged
         exec /mnt/merged/layered 600",
    );
}
