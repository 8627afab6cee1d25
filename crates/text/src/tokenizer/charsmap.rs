//! What SentencePiece writes instead of characters before it cuts a text: a trie of prefixes in a double array (S. Kanda, Space-
//! and Time-Efficient String Dictionaries, 2018), and strings that end with a zero byte (`precompiled_charsmap`).

use super::error::TokenizerError;

/// Bytes of a replacement at most; that of the longest ligature of Unicode has 33.
const MOST_BYTES: usize = 64;

/// Replacements by the longest prefix of a text; none at all if a file has no map.
#[derive(Default)]
pub(super) struct Charsmap {
    nodes: Vec<u32>,
    replacements: Vec<u8>,
}

/// Where the children of a node begin.
fn base(node: u32) -> usize {
    ((node >> 10) << ((node & 1 << 9) >> 6)) as usize
}

/// The byte that leads to a node. A value has another one than any byte.
fn label(node: u32) -> u32 {
    node & (1 << 31 | 0xff)
}

fn has_value(node: u32) -> bool {
    node >> 8 & 1 == 1
}

/// Where a replacement begins.
fn value(node: u32) -> usize {
    (node & !(1 << 31)) as usize
}

impl Charsmap {
    /// The map of a file: the length of the array in bytes, the array, and the strings.
    pub(super) fn new(bytes: &[u8]) -> Result<Charsmap, TokenizerError> {
        if bytes.is_empty() {
            return Ok(Charsmap::default());
        }
        let damaged = || TokenizerError::BadCharsmap { bytes: bytes.len() };
        let (&length, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
        let (nodes, replacements) = rest.split_at_checked(u32::from_le_bytes(length) as usize).ok_or_else(damaged)?;
        let nodes = nodes.as_chunks().0.iter().map(|&node| u32::from_le_bytes(node)).collect();
        Ok(Charsmap { nodes, replacements: replacements.to_vec() })
    }

    /// What takes the place of the longest prefix of a text that has something, and how long that prefix is.
    pub(super) fn replacement(&self, text: &[u8]) -> Option<(&[u8], usize)> {
        let mut at = base(*self.nodes.first()?);
        let mut found = None;
        for (depth, &byte) in text.iter().enumerate().take_while(|(_, byte)| **byte != 0) {
            at ^= usize::from(byte);
            let Some(&node) = self.nodes.get(at).filter(|node| label(**node) == u32::from(byte)) else { break };
            at ^= base(node);
            if has_value(node) {
                found = self.nodes.get(at).map(|&node| (value(node), depth + 1));
            }
        }
        let (start, len) = found?;
        let rest = self.replacements.get(start..)?;
        let end = rest.iter().take(MOST_BYTES).position(|&byte| byte == 0)?;
        Some((&rest[..end], len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of one byte to a string.
    pub(crate) fn of_byte(byte: u8, to: &str) -> Vec<u8> {
        let mut nodes = vec![0u32; 512];
        // The root's children lie behind 256, and the value of the only one at 0 beside it.
        nodes[0] = 256 << 10;
        let at = 256 ^ usize::from(byte);
        nodes[at] = u32::from(byte) | 1 << 8 | ((at ^ 1) as u32) << 10;
        nodes[1] = 1 << 31;
        let mut bytes = (nodes.len() as u32 * 4).to_le_bytes().to_vec();
        bytes.extend(nodes.iter().flat_map(|node| node.to_le_bytes()));
        bytes.extend(to.bytes().chain([0]));
        bytes
    }

    #[test]
    fn a_prefix_is_replaced() {
        let map = Charsmap::new(&of_byte(b'A', "bc")).unwrap();
        assert_eq!(map.replacement(b"Ax"), Some((&b"bc"[..], 1)));
        assert_eq!((map.replacement(b"x"), map.replacement(b"")), (None, None));
        assert_eq!(Charsmap::new(&[]).unwrap().replacement(b"A"), None);
    }

    #[test]
    fn damaged_maps_are_refused_or_replace_nothing() {
        let map = of_byte(b'A', "bc");
        for cut in [1, 3, 100, 4 + 2047] {
            assert!(Charsmap::new(&map[..cut]).is_err(), "{cut}");
        }
        // The string has no end.
        assert_eq!(Charsmap::new(&map[..map.len() - 1]).unwrap().replacement(b"A"), None);
        let mut far = map;
        far[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Charsmap::new(&far).unwrap().replacement(b"A"), None);
    }
}
