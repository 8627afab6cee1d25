//! Fields of requests that nobody asked for: each is named once in the log, so that a slip of the pen is found.

use crate::budget::NAMED_FIELDS;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// What was named already.
#[derive(Debug, Default)]
pub struct Unread(Mutex<HashSet<String>>);

impl Unread {
    /// Those of these names that are to be named now. After [`NAMED_FIELDS`] of them nothing more is.
    pub fn first_seen<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_new =
            |name: &&str| known.len() < NAMED_FIELDS && !known.contains(*name) && known.insert((*name).to_owned());
        names.filter(|name| is_new(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_once_and_not_too_many_are() {
        let unread = Unread::default();
        assert_eq!(unread.first_seen(["temprature", "user"].into_iter()), ["temprature", "user"]);
        assert_eq!(unread.first_seen(["user", "seeed"].into_iter()), ["seeed"]);
        let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(unread.first_seen(many.iter().map(String::as_str)).len(), NAMED_FIELDS - 3);
        assert!(unread.first_seen(["another"].into_iter()).is_empty());
    }
}
