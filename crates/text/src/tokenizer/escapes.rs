//! Tokens that a file spells as Python writes bytes.

/// The bytes that a token of a file stands for.
pub(super) fn unescape(stored: &[u8], out: &mut Vec<u8>) {
    let mut rest = stored;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&escaped, after)) = rest.split_first() else { return };
        rest = after;
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        match (escaped, rest) {
            (b'n', _) => out.push(b'\n'),
            (b't', _) => out.push(b'\t'),
            (b'r', _) => out.push(b'\r'),
            (b'x', [high, low, after @ ..]) => {
                if let (Some(high), Some(low)) = (digit(high), digit(low)) {
                    out.push((high << 4 | low) as u8);
                    rest = after;
                }
            }
            (other, _) => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_python() {
        for (stored, bytes) in [
            (r"a b", &b"a b"[..]),
            (r"\n\t\r\\\'", b"\n\t\r\\'"),
            (r"\x00\xffz", b"\x00\xffz"),
            (r"\x", b"x"),
            (r"\x1", b"x1"),
            (r"\xzz", b"zz"),
            ("\\", b""),
            ("日", "日".as_bytes()),
        ] {
            let mut out = vec![];
            unescape(stored.as_bytes(), &mut out);
            assert_eq!(out, bytes, "{stored}");
        }
    }
}
