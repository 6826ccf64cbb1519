//! A profile of Firefox that is read ahead of the recording that it belongs to. The other tests read theirs in both ways.

use serde_json::{Value, json};

use crate::made::{child, merge_ahead, merge_json, rows, shown, whole};

#[test]
fn a_profile_can_be_read_before_the_recording() {
    let all = json!([
        [0, 30.0, 32.0, 1, 1, {"type": "Text", "name": 2, "innerWindowID": 4}],
        [3, 5.0, 0, 0, 0],     // before the recording
        [3, 50.0, 0, 2, 1],    // without an end
        [1, 0, 60.0, 3, 1],    // without a start
    ]);
    let child_rows = json!([[0, 42.0, 43.0, 1, 1, null], [3, 50.0, 0, 2, 1]]);
    let file = |rows_of_child: Value| whole(34, &[rows(7, 7, &all)], &[child(&[rows_of_child])]);
    let recorded = file(rows(8, 9, &child_rows));
    let ahead = merge_ahead(recorded.to_string().as_bytes()).unwrap().unwrap();
    assert!(ahead == merge_json(&recorded));
    assert_eq!(
        shown(&ahead.2, 0),
        [("CC", 0, Some(40)), ("Reflow", 10, Some(12)), ("Load", 30, Some(100))]
    );
    // With markers of a thread that was not recorded, or after the end, it is read again.
    for other in [rows(99, 99, &child_rows), rows(8, 9, &json!([[0, 121.0, 0, 0, 1]]))] {
        let file = file(other);
        assert!(merge_ahead(file.to_string().as_bytes()).is_none());
        let (merged, ..) = merge_json(&file);
        assert!(merged.left.unrecorded + merged.left.outside > 1);
    }
}
