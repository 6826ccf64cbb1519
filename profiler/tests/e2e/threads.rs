//! Every thread has its own track with name, lifetime and CPU time, even if it starts late or ends early.

use crate::harness::skip::needs_capture;
use crate::harness::{Ngmi, Oracle, said_text};
use crate::proportions::share_of_work;

#[test]
fn each_thread_has_its_name_time_and_lifetime() {
    needs_capture!();
    let outcome = Ngmi::record().program(Oracle::c("threads"), [""; 0]).run();
    let profile = outcome.profile();
    let mut judged = 0;
    for line in outcome.stdout.lines().filter(|line| line.starts_with("name=")) {
        let (name, tid) = (said_text(line, "name"), said_text(line, "tid"));
        let thread = profile.named(name);
        assert!(!thread.is_main, "{name}");
        assert_eq!(thread.process, "threads", "{name}");
        assert!(
            thread.tid == tid || thread.tid.starts_with(&format!("{tid}.")),
            "{name}: {} for {tid}",
            thread.tid
        );
        let measured = said_text(line, "cpu_ns").parse::<f64>().unwrap() / 1e6;
        // Time after the last sample of a thread belongs to no sample. The kernel's counter continues after the program last
        // reads its clock.
        outcome.assert_cpu_ms(name, thread.cpu_ms(), measured, 0.02 * measured + 4.0);
        // Start and end take a significant part of a short lifetime.
        let least = if name.starts_with("brief") { 0.7 } else { 0.9 };
        assert!(
            thread.share("thread_work") > share_of_work(least),
            "{name}: {}",
            thread.share("thread_work")
        );
        judged += 1;
    }
    assert_eq!(judged, 15, "{}", outcome.stdout);

    let main = profile.main_of("threads");
    let (late, brief) = (profile.named("late-0"), profile.named("brief-3"));
    let steady = profile.named("steady-0");
    assert!(
        late.life.0 - steady.life.0 >= 295.0,
        "late-0 is born 300 ms after steady-0: {:?}",
        late.life
    );
    let brief_life = brief.life.1.expect("brief-3 ended") - brief.life.0;
    assert!(brief_life >= 20.0, "brief-3 burns 20 ms: {brief_life}");
    for thread in profile.threads.iter().filter(|thread| thread.process == "threads") {
        let end = thread.life.1.unwrap_or_else(|| panic!("{} ended", thread.name));
        assert!(
            thread.life.0 >= main.life.0 && end <= main.life.1.unwrap() + 1.0,
            "{}: {:?}",
            thread.name,
            thread.life
        );
        for sample in &thread.samples {
            assert!(
                sample.time >= thread.life.0 - 0.01 && sample.time <= end + 0.01,
                "{} at {}",
                thread.name,
                sample.time
            );
        }
    }
}

#[test]
fn a_worker_of_io_uring_belongs_to_its_process() {
    needs_capture!();
    let oracle = Oracle::c("iouring");
    let outcome = Ngmi::record().program(&oracle, [&oracle.path]).run();
    if outcome.code() == 77 {
        crate::harness::skip::skip("io_uring is not available here");
        return;
    }
    let profile = outcome.profile();
    let main = profile.main_of("iouring");
    let workers = profile
        .threads
        .iter()
        .filter(|thread| thread.name.starts_with("iou-wrk-"))
        .collect::<Vec<_>>();
    assert!(!workers.is_empty(), "{:?}", profile.thread_names());
    assert!(workers.iter().all(|worker| worker.pid == main.pid && !worker.is_main));
}
