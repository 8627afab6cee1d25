//! Where a kernel comes from, in a table.

/// Longest origin that a table prints.
const ORIGIN_SHOWN: usize = 70;

/// `blk.7.attn_q` as `blk.*.attn_q`, and `cache.7` as `cache.*`.
pub fn without_layer(origin: &str) -> String {
    let mut names: Vec<String> = vec![];
    for name in origin.split(' ') {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let parts: Vec<&str> = name.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
        let name = parts.join(".");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" ")
}

/// A text that fits into the last column of a table.
pub fn shortened(text: &str) -> String {
    if text.chars().count() <= ORIGIN_SHOWN {
        return text.to_owned();
    }
    text.chars().take(ORIGIN_SHOWN).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_not_told_apart() {
        assert_eq!(
            without_layer("blk.3.attn_q_a blk.3.attn_kv_a cache.3.k"),
            "blk.*.attn_q_a blk.*.attn_kv_a cache.*.k"
        );
        assert_eq!(without_layer("blk.3.ffn_down blk.4.attn_norm"), "blk.*.ffn_down blk.*.attn_norm");
        assert_eq!(without_layer("output_norm output cache.3 cache.4"), "output_norm output cache.*");
        assert_eq!(shortened(&"x".repeat(90)).chars().count(), ORIGIN_SHOWN + 1);
    }
}
