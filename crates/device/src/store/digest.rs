//! Content digests: the names of kernels and objects on disk.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Length of a [`Digest`].
pub(crate) const DIGITS: usize = 64;

/// A SHA-256 digest as 64 hexadecimal digits.
pub(crate) type Digest = String;

/// The digest of several parts, each delimited.
pub(crate) fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// The digest of the bytes of a file.
pub(crate) fn of_bytes(bytes: &[u8]) -> Digest {
    hex(&Sha256::digest(bytes))
}

/// Bytes behind their digest: what [`unsealed`] takes.
pub(crate) fn sealed(bytes: &[u8]) -> Vec<u8> {
    [of_bytes(bytes).as_bytes(), bytes].concat()
}

/// What was sealed, if it is whole.
pub(crate) fn unsealed(mut sealed: Vec<u8>) -> Option<Vec<u8>> {
    let (proof, bytes) = sealed.split_at_checked(DIGITS)?;
    if of_bytes(bytes).as_bytes() != proof {
        return None;
    }
    sealed.drain(..DIGITS);
    Some(sealed)
}

fn hex(bytes: &[u8]) -> Digest {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_delimited() {
        let one = of_parts([b"ab".as_slice(), b"c".as_slice()]);
        let two = of_parts([b"a".as_slice(), b"bc".as_slice()]);
        assert_ne!(one, two);
    }

    #[test]
    fn a_known_digest() {
        assert!(of_bytes(b"abc").starts_with("ba7816bf8f01cfea"));
    }
}
