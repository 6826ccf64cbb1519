//! Warnings about the reliability of the tables, each with its remedy.

use profiler_common::Loss;

use super::devices::DeviceRow;
use super::report::IoReport;
use crate::text::{count, fit};

/// Losses that may be requests.
const LOSSES: [Loss; 7] = [
    Loss::ProgramMissed,
    Loss::LogWriteFailed,
    Loss::LogDamaged,
    Loss::EventLate,
    Loss::BlockRingFull,
    Loss::RequestTableFull,
    Loss::RequestEndMissed,
];

/// Warnings that apply to the report.
pub fn warnings(report: &IoReport) -> Vec<String> {
    let mut warnings = Vec::new();
    let lost = LOSSES.iter().filter_map(|loss| report.recording.lost(*loss));
    let lost = lost.fold(0, u64::saturating_add);
    let of_all = report.is_everything && report.recording.folded_requests.is_empty();
    let wrong = report
        .by_device
        .iter()
        .filter(|row| of_all && row.agrees() == Some(false));
    for DeviceRow { device, .. } in wrong {
        let device = fit(device, 30);
        let why = if lost > 0 {
            format!(
                "records lost: {}; `ngmi record` lists the losses and how to avoid them",
                count(lost)
            )
        } else {
            "requests that started or ended while the counters were read may be in only one of the two; please report a larger \
            difference, with the event log"
                .to_owned()
        };
        warnings.push(format!(
            "the counts of {device} differ from the device's own counters: {why}"
        ));
    }
    let unfinished: u64 = report.by_device.iter().map(|row| row.unfinished).sum();
    if unfinished > 0 {
        warnings.push(format!(
            "requests in flight when the recording ended: {}; they are exported as `no-end` rows, but do not appear in the tables",
            count(unfinished)
        ));
    }
    if report.by_device.iter().any(|row| row.stacked) {
        warnings.push(
            "devices marked with * are stacked on others, which get the same requests again: they are not included in totals; select one with \
            --device to see which processes used it"
                .to_owned(),
        );
    }
    for row in &report.errors {
        let meaning = if row.meaning.is_empty() { "unknown" } else { row.meaning };
        warnings.push(format!(
            "failed requests: {} of type {} on {} (error {}: {meaning}); see `dmesg` for details",
            count(row.requests),
            row.operation.name(),
            fit(&row.device, 30),
            row.error,
        ));
    }
    warnings
}
