//! Prints the prediction.

use super::model::Cost;
use super::prediction::Prediction;
use crate::text::{bytes, count, percent};

/// Formats the prediction; `read_as` names the file.
pub fn lines(prediction: &Prediction, read_as: &str) -> Vec<String> {
    let Prediction { today, ordered, .. } = prediction;
    let mut lines = vec![
        format!(
            "{} of {} functions of {read_as} ran: {} of code",
            count(prediction.functions as u64),
            count(prediction.of as u64),
            bytes(prediction.bytes)
        ),
        format!(
            "{:<34}{:>10}{:>10}{:>9}",
            "by the page model of docs/order.md", "today", "ordered", "less"
        ),
    ];
    let mut row = |name: &str, of: fn(&Cost) -> u64| {
        let (before, after) = (of(today), of(ordered));
        let less = percent(before.saturating_sub(after), before);
        lines.push(format!("{name:<34}{:>10}{:>10}{less:>9}", count(before), count(after)));
    };
    row("pages of code touched", |cost| cost.pages);
    row("faults, pages in memory", |cost| cost.warm_faults);
    row("reads, nothing in memory", |cost| cost.reads);
    row("kB read", |cost| cost.read_bytes / 1000);
    lines.push(format!(
        "{:<34}{:>10}",
        "pages of code with recorded faults",
        count(prediction.faulted_pages)
    ));
    lines.push(format!(
        "{:<34}{:>10}{:>10}",
        "pages after N functions", "today", "ordered"
    ));
    for (functions, today, ordered) in &prediction.curve {
        let functions = count(*functions as u64);
        lines.push(format!(
            "{functions:<34}{:>10}{:>10}",
            count(today.pages),
            count(ordered.pages)
        ));
    }
    lines
}
