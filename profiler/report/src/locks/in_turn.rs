//! Locks that were at one address of the heap in turn, as far as stacks show. docs/waits.md has the rule.

use rustc_hash::FxHashMap;

use crate::functions::FunctionId;
use base::addr::Timestamp;
use fact::ThreadId;

/// What the uses of one lock have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum User {
    /// A function that waited for it or released it, or all of its class, by number.
    Function(u32),
    /// A thread that waited for it, and the function's caller.
    Caller(ThreadId, FunctionId),
}

/// A wait at an address: when, and the users that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Its start.
    pub start: Timestamp,
    /// Its end.
    pub end: Timestamp,
    /// Of the thread that waited, and of the one that released the lock.
    pub users: [Option<User>; 3],
}

/// For each use, by start: the number of its lock.
///
/// Another lock begins where no thread waits, and none of the users so far is among those that follow. A use without
/// users is of the lock before it.
pub fn in_turn(uses: &[Use]) -> Vec<usize> {
    let mut last: FxHashMap<User, usize> = FxHashMap::default();
    for (place, one) in uses.iter().enumerate() {
        last.extend(one.users.iter().flatten().map(|user| (*user, place)));
    }
    let (mut lock, mut has_users) = (0, false);
    // The last use by the users so far, and when their last wait ends.
    let (mut until, mut busy) = (0, Timestamp(0));
    let number = |(place, one): (usize, &Use)| {
        let lasts = one.users.iter().flatten().filter_map(|user| last.get(user));
        if let Some(latest) = lasts.max() {
            lock += usize::from(has_users && place > until && one.start >= busy);
            has_users = true;
            until = until.max(*latest);
        }
        busy = busy.max(one.end);
        lock
    };
    uses.iter().enumerate().map(number).collect()
}

/// A function's class, if it is a method of one; else its name without parameters. A capital letter
/// distinguishes classes from namespaces.
pub fn class_or_function(function: &str) -> &str {
    let name = without_parameters(function);
    let Some((scope, _)) = divided(name) else { return name };
    if let Some(implemented) = scope.strip_prefix('<') {
        let of_trait = implemented.split_once(" as ").map(|(of_type, _)| of_type);
        return of_trait.unwrap_or_else(|| implemented.strip_suffix('>').unwrap_or(implemented));
    }
    let class = divided(scope).map_or(scope, |(_, class)| class);
    if class.starts_with(|first: char| first.is_uppercase()) {
        scope
    } else {
        name
    }
}

/// Up to the list of parameters, and what is in it or behind: `load` of `load(int)::{lambda()#1}::operator()`.
fn without_parameters(function: &str) -> &str {
    let mut depth = 0_u32;
    for (place, letter) in function.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && place > 0 && !function[place..].starts_with("(anonymous") => {
                return &function[..place];
            }
            '{' if depth == 0 => return function[..place].trim_end_matches(':'),
            _ => {}
        }
    }
    function
}

/// A name divided at the last `::` outside of angle brackets.
fn divided(name: &str) -> Option<(&str, &str)> {
    let (mut depth, mut found) = (0_u32, None);
    for (place, letter) in name.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && place > 0 && name[place..].starts_with("::") => {
                found = Some((&name[..place], &name[place + 2..]));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits from and to a time, by functions.
    fn locks(uses: &[(u64, u64, &[u32])]) -> Vec<usize> {
        let one = |(start, end, functions): &(u64, u64, &[u32])| {
            let mut by = [None; 3];
            for (to, function) in by.iter_mut().zip(*functions) {
                *to = Some(User::Function(*function));
            }
            Use {
                start: Timestamp(*start),
                end: Timestamp(*end),
                users: by,
            }
        };
        in_turn(&uses.iter().map(one).collect::<Vec<_>>())
    }

    #[test]
    fn other_functions_at_another_time_are_another_lock() {
        assert!(locks(&[]).is_empty());
        assert_eq!(
            locks(&[(0, 5, &[1]), (6, 9, &[1, 2]), (9, 12, &[3]), (20, 21, &[4])]),
            [0, 0, 1, 2]
        );
        // A thread still waited.
        assert_eq!(locks(&[(0, 10, &[1]), (9, 12, &[3])]), [0, 0]);
        assert_eq!(
            locks(&[(0, 10, &[1]), (2, 3, &[1]), (9, 12, &[3]), (12, 13, &[4])]),
            [0, 0, 0, 1]
        );
    }

    #[test]
    fn one_lock_that_several_functions_use_stays_one() {
        // They come back, or release it for each other.
        assert_eq!(
            locks(&[(0, 1, &[1]), (2, 3, &[2]), (4, 5, &[3]), (6, 7, &[1])]),
            [0, 0, 0, 0]
        );
        assert_eq!(locks(&[(0, 1, &[1, 2]), (2, 3, &[2, 3]), (4, 5, &[3, 1])]), [0, 0, 0]);
        // The same thread calls them in the same function.
        let call = |time, function, thread| Use {
            start: Timestamp(time),
            end: Timestamp(time + 1),
            users: [
                Some(User::Function(function)),
                Some(User::Caller(ThreadId(thread), FunctionId(9))),
                None,
            ],
        };
        assert_eq!(in_turn(&[call(0, 1, 1), call(2, 2, 1), call(4, 3, 1)]), [0, 0, 0]);
        assert_eq!(in_turn(&[call(0, 1, 1), call(2, 2, 2), call(4, 2, 3)]), [0, 1, 1]);
    }

    #[test]
    fn what_is_unknown_divides_nothing() {
        assert_eq!(
            locks(&[(0, 1, &[]), (2, 3, &[1]), (4, 5, &[]), (6, 7, &[1])]),
            [0, 0, 0, 0]
        );
        assert_eq!(locks(&[(0, 1, &[1]), (2, 3, &[]), (4, 5, &[2])]), [0, 0, 1]);
        assert_eq!(locks(&[(0, 1, &[]), (2, 3, &[])]), [0, 0]);
    }

    #[test]
    fn methods_of_a_class_are_one_user() {
        for (function, expected) in [
            ("take_item", "take_item"),
            ("ns::take(int, char)", "ns::take"),
            ("ns::Queue::take(int) const", "ns::Queue"),
            ("ns::Queue<a::B, c>::put<d::E>(a::B)", "ns::Queue<a::B, c>"),
            ("<app::Queue as core::Take<x::Y>>::take", "app::Queue"),
            ("<app::Queue>::put", "app::Queue"),
            ("app::Queue::put::{{closure}}", "app::Queue"),
            ("app::main::{closure#0}", "app::main"),
            ("load(int)::{lambda()#1}::operator()() const", "load"),
            ("(anonymous namespace)::load(int)", "(anonymous namespace)::load"),
            ("libfoo.so + 0x1200", "libfoo.so + 0x1200"),
            ("", ""),
            ("::", "::"),
        ] {
            assert_eq!(class_or_function(function), expected, "{function}");
        }
    }
}
