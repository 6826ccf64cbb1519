//! What a person has to know before believing the tables, each with its remedy.

use super::devices::DeviceRow;
use super::report::IoReport;
use crate::report::text::{count, fit};

/// All that apply.
pub fn warnings(report: &IoReport) -> Vec<String> {
    let mut warnings = Vec::new();
    let lost: u64 = report.recording.losses.iter().map(|(_, lost)| lost).sum();
    let of_all = report.is_everything && report.recording.folded_requests.is_empty();
    let wrong = report
        .by_device
        .iter()
        .filter(|row| of_all && row.agrees() == Some(false));
    for DeviceRow { device, .. } in wrong {
        let device = fit(device, 30);
        let why = if lost > 0 {
            format!(
                "{} records were lost; `ngmi record` names the losses and what helps",
                count(lost)
            )
        } else {
            "requests that began or ended while the counters were read are in one of both only; a larger difference is worth a report with \
             the event log"
                .to_owned()
        };
        warnings.push(format!(
            "the figures of {device} are not those that the device counted: {why}"
        ));
    }
    let unfinished: u64 = report.by_device.iter().map(|row| row.unfinished).sum();
    if unfinished > 0 {
        warnings.push(format!(
            "{} requests were under way when the recording ended: they are in no table, and in the rows with `no-end`",
            count(unfinished)
        ));
    }
    if report.by_device.iter().any(|row| row.stacked) {
        warnings.push(
            "devices with a * are made of others, which are asked for the same again: they are in no total; select one with --device to see who \
             used it"
                .to_owned(),
        );
    }
    for row in &report.errors {
        let meaning = if row.meaning.is_empty() { "unknown" } else { row.meaning };
        warnings.push(format!(
            "{} of {} failed on {} (error {}: {meaning}); `dmesg` tells more",
            count(row.requests),
            row.operation.name(),
            fit(&row.device, 30),
            row.error,
        ));
    }
    warnings
}
