//! Tables of groups: events with the same key share a row, which accumulates their values.

use std::hash::Hash;
use std::marker::PhantomData;

use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};

use super::Grid;
use crate::export::Cell;
use crate::histogram::Histogram;
use crate::text::{columns, count, fit, path};
use fact::fault::MappedFileId;

/// Values that accumulate over the events of a group.
pub trait Measure: Copy + Default + 'static {
    /// How a table shows them.
    const GRID: Grid<Self>;

    /// Adds the values of another group.
    fn merge(&mut self, other: &Self);

    /// The sort key of rows, in descending order.
    fn rank(&self) -> (u64, u64);
}

/// What a row is about: its name in a printed table, and its fields in JSON.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupName {
    text: String,
    /// The end of a path says more than its start.
    is_path: bool,
    /// Follows the name and is never cut.
    suffix: String,
    fields: Fields,
    /// Fields after the values.
    more: Fields,
    file: Option<MappedFileId>,
}

impl GroupName {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    pub(crate) fn path(text: impl Into<String>) -> Self {
        Self {
            is_path: true,
            ..Self::new(text)
        }
    }

    /// Appends `(id)`, which stays when the name is cut.
    pub(crate) fn with_id(mut self, id: impl std::fmt::Display) -> Self {
        self.suffix = format!(" ({id})");
        self
    }

    /// Adds a field of JSON.
    pub(crate) fn field(mut self, key: &'static str, value: impl Into<Cell<'static>>) -> Self {
        self.fields.0.push((key, Field::Cell(value.into())));
        self
    }

    /// Adds a field with several names.
    pub(crate) fn names(mut self, key: &'static str, names: Vec<String>) -> Self {
        self.fields.0.push((key, Field::Names(names)));
        self
    }

    /// Adds a field after the values.
    pub(crate) fn after(mut self, key: &'static str, value: impl Into<Cell<'static>>) -> Self {
        self.more.0.push((key, Field::Cell(value.into())));
        self
    }

    /// Adds the distribution of durations after the values.
    pub(crate) fn lengths(mut self, key: &'static str, lengths: Box<Histogram>) -> Self {
        self.more.0.push((key, Field::Lengths(lengths)));
        self
    }

    /// The file that the row is about.
    pub(crate) fn of_file(mut self, file: Option<MappedFileId>) -> Self {
        self.file = file;
        self
    }

    fn fitted(&self, width: usize) -> String {
        if self.is_path {
            return path(&self.text, width);
        }
        fit(&self.text, width.saturating_sub(columns(&self.suffix))) + &self.suffix
    }
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum Field {
    Cell(Cell<'static>),
    Names(Vec<String>),
    Lengths(Box<Histogram>),
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Fields(Vec<(&'static str, Field)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// A row: a group and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRow<M> {
    name: GroupName,
    /// The accumulated values.
    pub tally: M,
}

impl<M: Serialize> Serialize for GroupRow<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'r, M> {
            #[serde(flatten)]
            fields: &'r Fields,
            #[serde(flatten)]
            tally: &'r M,
            #[serde(flatten)]
            more: &'r Fields,
        }
        let flat = Flat {
            fields: &self.name.fields,
            tally: &self.tally,
            more: &self.name.more,
        };
        flat.serialize(serializer)
    }
}

impl<M> GroupRow<M> {
    pub(crate) fn new(name: GroupName, tally: M) -> Self {
        Self { name, tally }
    }

    /// Its name as a table shows it, in full.
    pub(crate) fn title(&self) -> String {
        format!("{}{}", self.name.text, self.name.suffix)
    }

    fn field(&self, key: &str) -> Option<&Field> {
        let mut fields = self.name.fields.0.iter().chain(&self.name.more.0);
        fields.find_map(|(known, field)| (*known == key).then_some(field))
    }

    fn cell(&self, key: &str) -> Option<&Cell<'static>> {
        match self.field(key)? {
            Field::Cell(cell) => Some(cell),
            _ => None,
        }
    }

    /// The text in a field, if it has one.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.cell(key)? {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number in a field, if it has one; a flag is 0 or 1.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.cell(key)? {
            Cell::Number(number) => Some(*number),
            Cell::Flag(flag) => Some((*flag).into()),
            _ => None,
        }
    }

    /// The names in a field.
    pub(crate) fn names(&self, key: &str) -> &[String] {
        match self.field(key) {
            Some(Field::Names(names)) => names,
            _ => &[],
        }
    }

    /// The distribution in a field.
    pub fn lengths(&self, key: &str) -> Option<&Histogram> {
        match self.field(key)? {
            Field::Lengths(lengths) => Some(lengths),
            _ => None,
        }
    }

    /// The file that the row is about.
    pub fn file(&self) -> Option<MappedFileId> {
        self.name.file
    }
}

/// A table: its rows by descending rank. It serializes as the list of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct GroupTable<M> {
    /// Its key in JSON.
    #[serde(skip)]
    pub key: &'static str,
    /// Its title; empty if it is not printed as a table.
    #[serde(skip)]
    pub title: &'static str,
    /// All rows.
    pub rows: Vec<GroupRow<M>>,
}

impl<M: Measure> GroupTable<M> {
    /// A table with a row for each group, by descending rank, then by key.
    pub(crate) fn new<K: Ord>(
        (key, title): (&'static str, &'static str),
        groups: FxHashMap<K, M>,
        name: impl Fn(K) -> GroupName,
    ) -> Self {
        let row = |(key, tally)| GroupRow::new(name(key), tally);
        let rows = ranked(groups).into_iter().map(row).collect();
        Self { key, title, rows }
    }

    /// The lines of the table with at most `top` rows; `all` is the sum of the rows.
    pub(crate) fn lines(&self, all: &M, top: usize) -> Vec<String> {
        let rows: Vec<_> = self.rows.iter().collect();
        group_lines(self.title, &rows, (all, all), top)
    }
}

/// The lines of a table with at most `top` of the rows, the sum of the other ones, and the total. Shares are shares of `all`.
pub(crate) fn group_lines<M: Measure>(
    title: &str,
    rows: &[&GroupRow<M>],
    (total, all): (&M, &M),
    top: usize,
) -> Vec<String> {
    let grid = M::GRID;
    let mut lines = vec![grid.head(title)];
    let (shown, others) = rows.split_at(top.min(rows.len()));
    lines.extend(
        shown
            .iter()
            .map(|row| grid.row(&row.name.fitted(grid.name), &row.tally, all)),
    );
    if !others.is_empty() {
        let mut rest = M::default();
        for row in others {
            rest.merge(&row.tally);
        }
        lines.push(grid.row(&format!("({} more)", count(others.len() as u64)), &rest, all));
    }
    if rows.len() > 1 {
        lines.push(grid.row("total", total, all));
    }
    lines
}

/// The tables of a report, in order. They serialize as a map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupTables<M>(pub(crate) Vec<GroupTable<M>>);

impl<M: Serialize> Serialize for GroupTables<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|table| (table.key, table)))
    }
}

impl<M> GroupTables<M> {
    /// The rows of the table with this key.
    pub fn rows(&self, key: &str) -> &[GroupRow<M>] {
        let table = self.0.iter().find(|table| table.key == key);
        table.map_or(&[], |table| &table.rows)
    }
}

/// Builds a table of events `E`.
pub(crate) trait Grouping<E, M> {
    /// Adds an event with its values.
    fn add(&mut self, event: &E, tally: &M);

    /// The table of all added events.
    fn finish(self: Box<Self>) -> GroupTable<M>;
}

struct By<E, K, M, Of, Rows> {
    key: &'static str,
    title: &'static str,
    groups: FxHashMap<K, M>,
    of: Of,
    rows: Rows,
    events: PhantomData<fn(&E)>,
}

impl<E, K, M, Of, Rows> Grouping<E, M> for By<E, K, M, Of, Rows>
where
    K: Hash + Ord,
    M: Measure,
    Of: Fn(&E) -> K,
    Rows: FnOnce(Vec<(K, M)>) -> Vec<GroupRow<M>>,
{
    fn add(&mut self, event: &E, tally: &M) {
        self.groups.entry((self.of)(event)).or_default().merge(tally);
    }

    fn finish(self: Box<Self>) -> GroupTable<M> {
        GroupTable {
            key: self.key,
            title: self.title,
            rows: (self.rows)(ranked(self.groups)),
        }
    }
}

/// Groups by descending rank, then by key.
pub(crate) fn ranked<K: Ord, M: Measure>(groups: FxHashMap<K, M>) -> Vec<(K, M)> {
    let mut groups: Vec<(K, M)> = groups.into_iter().collect();
    groups.sort_unstable_by(|(a, left), (b, right)| (right.rank(), a).cmp(&(left.rank(), b)));
    groups
}

/// A table with a row for each key.
pub(crate) fn by<'v, E: 'v, K: Hash + Ord + 'v, M: Measure>(
    (key, title): (&'static str, &'static str),
    of: impl Fn(&E) -> K + 'v,
    name: impl Fn(K) -> GroupName + 'v,
) -> Box<dyn Grouping<E, M> + 'v> {
    let row = move |(key, tally)| GroupRow::new(name(key), tally);
    by_parts((key, title), of, move |groups| groups.into_iter().map(row).collect())
}

/// A table whose rows are computed from the groups, which are sorted by descending rank, then by key.
pub(crate) fn by_parts<'v, E: 'v, K: Hash + Ord + 'v, M: Measure>(
    (key, title): (&'static str, &'static str),
    of: impl Fn(&E) -> K + 'v,
    rows: impl FnOnce(Vec<(K, M)>) -> Vec<GroupRow<M>> + 'v,
) -> Box<dyn Grouping<E, M> + 'v> {
    Box::new(By {
        key,
        title,
        groups: FxHashMap::default(),
        of,
        rows,
        events: PhantomData,
    })
}

/// Builds the tables of a report, and their total.
pub(crate) struct Groupings<'v, E, M> {
    total: M,
    each: Vec<Box<dyn Grouping<E, M> + 'v>>,
}

impl<'v, E, M: Measure> Groupings<'v, E, M> {
    pub(crate) fn new(each: Vec<Box<dyn Grouping<E, M> + 'v>>) -> Self {
        let total = M::default();
        Self { total, each }
    }

    /// Adds an event with its values to each table.
    pub(crate) fn add(&mut self, event: &E, tally: &M) {
        self.total.merge(tally);
        for grouping in &mut self.each {
            grouping.add(event, tally);
        }
    }

    /// The total and the tables of all added events.
    pub(crate) fn finish(self) -> (M, GroupTables<M>) {
        let tables = self.each.into_iter().map(Grouping::finish);
        (self.total, GroupTables(tables.collect()))
    }
}
