//! Tables of a synthetic measure.

use serde::Serialize;

use super::*;
use crate::export::json;
use crate::text::count;

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Sum {
    number: u64,
}

impl Measure for Sum {
    const GRID: Grid<Self> = Grid {
        name: 10,
        gap: 0,
        columns: &[
            Column("sum", 5, |row, _| count(row.number)),
            Column("of", 5, |_, all| count(all.number)),
        ],
    };

    fn merge(&mut self, other: &Self) {
        self.number += other.number;
    }

    fn rank(&self) -> (u64, u64) {
        (self.number, 0)
    }
}

fn table() -> (GroupTables<Sum>, Sum) {
    let name = |ten: u64| GroupName::new("漢字漢字漢字").with_id(ten).field("ten", ten);
    let mut groupings = Groupings::new(vec![by(("by_ten", "by ten"), |event: &u64| event / 10, name)]);
    for number in [1, 2, 11, 25, 30] {
        groupings.add(&number, &Sum { number });
    }
    let (total, tables) = groupings.finish();
    (tables, total)
}

#[test]
fn a_printed_table_adds_up_and_is_aligned() {
    let (tables, total) = table();
    let lines = tables.0[0].lines(&total, 2);
    let plain: Vec<&str> = lines.iter().map(|line| line.trim_matches('\u{1b}')).collect();
    assert!(plain[0].contains("by ten      sum   of"), "{}", plain[0]);
    assert_eq!(plain[1], "漢字… (3)    30   69");
    assert_eq!(
        plain[2..],
        ["漢字… (2)    25   69", "(2 more)     14   69", "total        69   69"]
    );
}

#[test]
fn cells_of_wide_characters_are_aligned() {
    let grid = Grid::<Sum> {
        name: 4,
        gap: 1,
        columns: &[Column("holder", 8, |_, _| "漢字".to_owned())],
    };
    let sum = Sum::default();
    assert_eq!(grid.row("lock", &sum, &sum), "lock     漢字");
}

#[test]
fn a_table_is_a_list_of_flat_objects() {
    let (tables, _) = table();
    let mut out = Vec::new();
    json(&mut out, &tables).unwrap();
    let json = String::from_utf8(out).unwrap().split_whitespace().collect::<String>();
    assert!(
        json.starts_with(r#"{"by_ten":[{"ten":3,"number":30},{"ten":2,"#),
        "{json}"
    );
    let row = &tables.rows("by_ten")[0];
    assert_eq!(
        (row.number("ten"), row.text("ten"), row.number("none")),
        (Some(3), None, None)
    );
}
