// The name and identity of a mapped file, in cases in which they are not obvious. Each case reads eight pages that are 32 apart.
//
// names MODE FOLDER: link (one file is mapped under its two names), deleted, replaced (another file takes its name between mapping and touch),
// moved (mremap moves the mapping), bind and overlay (mounts in a separate namespace).
#include "fault.h"

#include <sched.h>
#include <sys/mount.h>

#define COUNT ((size_t)8)
#define APART ((size_t)32)
#define PAGES (COUNT * APART)

static const char *folder;

static struct phase mapped(const char *name, const struct source *source, size_t first) {
    struct phase phase = {.name = name, .exact = true, .resident_before = -1, .resident_after = -1};
    map_file(&phase, source, PROT_READ, MAP_SHARED, first, PAGES - first);
    return phase;
}

static void touch_all(struct phase *phase) {
    phase_start(phase, COUNT);
    for (size_t page = 0; page + 1 < phase->pages; page += APART) touch_load(phase, page, "file-read");
    phase_end(phase);
    phase_print(phase);
}

// Formats a new string.
static char *text(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    char *made;
    if (vasprintf(&made, format, rest) < 0) die("vasprintf");
    va_end(rest);
    return made;
}

// Mounts the folder in this way and returns its path under the mount.
static char *mount_of(const char *kind, const char *lower, const char *at) {
    if (unshare(CLONE_NEWNS) || mount(0, "/", 0, MS_REC | MS_PRIVATE, 0)) skip("no mount namespace: %m");
    if (!strcmp(kind, "bind")) {
        if (mount(lower, at, 0, MS_BIND, 0)) skip("no bind mount: %m");
        return text("%s", at);
    }
    // overlayfs needs a suitable file system for its upper folders: tmpfs is one.
    if (mount("tmpfs", at, "tmpfs", 0, 0)) skip("no tmpfs: %m");
    char *upper = text("%s/upper", at), *work = text("%s/work", at), *merged = text("%s/merged", at);
    if (mkdir(upper, 0755) || mkdir(work, 0755) || mkdir(merged, 0755)) die("mkdir");
    if (mount("overlay", merged, "overlay", 0, text("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work))) skip("no overlayfs: %m");
    return merged;
}

static void through_a_mount(const char *kind, struct source *file) {
    char *lower = text("%s/lower-%d", folder, getpid()), *inside = text("%s/data", lower), *at = text("%s/mount-%d", folder, getpid());
    if (mkdir(lower, 0755) || mkdir(at, 0755) || rename(file->path, inside)) die("folders of the mount");
    char *path = text("%s/data", mount_of(kind, lower, at));
    struct phase phase = mapped(kind, source_of(path, open(path, O_RDONLY)), 2);
    touch_all(&phase);
    umount2(at, MNT_DETACH);
    unlink(inside);
    rmdir(lower);
    rmdir(at);
}

static void by_two_names(struct source *file) {
    char *other = text("%s-too", file->path);
    if (link(file->path, other)) skip("no hard links: %m");
    struct phase one = mapped("link", file, 1), two = mapped("link too", source_of(other, open(other, O_RDONLY)), 2);
    touch_all(&one);
    touch_all(&two);
    unlink(other);
}

static void moved(struct source *file) {
    struct phase phase = mapped("moved", file, 3);
    char *place = fresh_place(phase.pages * PAGE);
    char *now = mremap(phase.base, phase.pages * PAGE, phase.pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (now != place) die("mremap");
    phase.base = place;
    touch_all(&phase);
}

static void replaced(struct source *file) {
    struct phase phase = mapped("replaced", file, 1);
    struct source *other = new_file(folder, "names-other", PAGES);
    if (rename(other->path, file->path)) die("rename");
    touch_all(&phase);
    struct phase after = mapped("replaced, new", source_of(file->path, open(file->path, O_RDONLY)), 2);
    touch_all(&after);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *mode = argv[1];
    folder = argv[2];
    struct source *file = new_file(folder, "names", PAGES);
    if (!strcmp(mode, "link")) by_two_names(file);
    else if (!strcmp(mode, "moved")) moved(file);
    else if (!strcmp(mode, "replaced")) replaced(file);
    else if (!strcmp(mode, "deleted")) {
        struct phase phase = mapped(mode, file, 1);
        unlink(file->path);
        touch_all(&phase);
    } else through_a_mount(mode, file);
    unlink(file->path);
    return 0;
}
