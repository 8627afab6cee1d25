//! What whoever waits for a download may want to show.

use std::time::Duration;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// What will be downloaded.
    Plan {
        /// Repository or address.
        from: &'a str,
        /// Files that are not here.
        files: &'a [String],
        /// Bytes of them.
        bytes: u64,
        /// Bytes of them that an earlier download left.
        have: u64,
        /// Whether the table names a repository that nobody has looked at.
        unchecked: bool,
    },
    /// Another process downloads the same file.
    Waiting(&'a str),
    /// A file begins.
    Begin {
        /// Its name.
        file: &'a str,
        /// Its size, if the server says.
        bytes: Option<u64>,
        /// The SHA-256 that it has to have, if the server promises one.
        sha256: Option<&'a str>,
    },
    /// So many bytes of the file are here.
    At(u64),
    /// The transfer broke off and goes on after a pause.
    Retry {
        /// What happened.
        reason: &'a str,
        /// Until it goes on.
        pause: Duration,
    },
    /// A file is here; whether its hash was checked.
    Done {
        /// Its name.
        file: &'a str,
        /// Whether the server had promised a hash.
        verified: bool,
    },
}

/// Hears of what happens.
pub trait Watch {
    /// Something happened.
    fn hear(&self, event: &Event);

    /// Whether somebody still waits for the download. If not, it ends soon, and what is there is kept.
    fn waits(&self) -> bool {
        true
    }
}

/// Hears nothing.
pub struct Silent;

impl Watch for Silent {
    fn hear(&self, _: &Event) {}
}
