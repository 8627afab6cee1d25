//! The stages of sampling, by name and in order.

use std::fmt;
use std::str::FromStr;

/// One stage of sampling, which changes logits or cuts tokens off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Penalties for tokens of the recent text.
    Penalties,
    /// A penalty for tokens that would go on repeating a passage.
    Dry,
    /// Tokens within some standard deviations of the best logit.
    TopNSigma,
    /// So many of the likeliest.
    TopK,
    /// Tokens about as likely as is expected.
    Typical,
    /// The likeliest up to a sum of probabilities.
    TopP,
    /// Tokens at least this fraction as likely as the best.
    MinP,
    /// Now and then, the likeliest of several likely tokens go.
    Xtc,
    /// Logits divided by the temperature.
    Temperature,
}

/// Each stage with its letter and its names, the first of which is llama.cpp's, in the order that is usual.
const TABLE: [(Stage, char, &[&str]); 9] = [
    (Stage::Penalties, 'e', &["penalties"]),
    (Stage::Dry, 'd', &["dry"]),
    (Stage::TopNSigma, 's', &["top_n_sigma"]),
    (Stage::TopK, 'k', &["top_k"]),
    (Stage::Typical, 'y', &["typ_p", "typical_p", "typical", "typ"]),
    (Stage::TopP, 'p', &["top_p", "nucleus"]),
    (Stage::MinP, 'm', &["min_p"]),
    (Stage::Xtc, 'x', &["xtc"]),
    (Stage::Temperature, 't', &["temperature", "temp"]),
];

impl Stage {
    /// The order that is usual, which is that of llama.cpp.
    pub const USUAL: [Stage; 9] = [
        Stage::Penalties,
        Stage::Dry,
        Stage::TopNSigma,
        Stage::TopK,
        Stage::Typical,
        Stage::TopP,
        Stage::MinP,
        Stage::Xtc,
        Stage::Temperature,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|row| row.0 == self).map_or("", |row| row.2[0])
    }

    /// Names one after another, with a semicolon between them: `top_k;top_p;temperature`.
    ///
    /// # Errors
    /// The first that is no stage.
    pub fn list(names: &str) -> Result<Vec<Stage>, UnknownStage> {
        names.split(';').filter(|name| !name.trim().is_empty()).map(str::parse).collect()
    }

    /// A letter for each: `kpt`.
    ///
    /// # Errors
    /// The first that is no stage.
    pub fn letters(letters: &str) -> Result<Vec<Stage>, UnknownStage> {
        let stage = |letter: char| TABLE.iter().find(|row| row.1 == letter).map(|row| row.0);
        letters.chars().map(|letter| stage(letter).ok_or_else(|| UnknownStage(letter.to_string()))).collect()
    }
}

impl FromStr for Stage {
    type Err = UnknownStage;

    fn from_str(name: &str) -> Result<Stage, UnknownStage> {
        let plain = name.trim().to_ascii_lowercase().replace('-', "_");
        let found = TABLE.iter().find(|row| row.2.contains(&plain.as_str())).map(|row| row.0);
        found.ok_or_else(|| UnknownStage(name.trim().to_owned()))
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no stage has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no sampler '{0}' here; there are {names}", names = Stage::USUAL.map(Stage::name).join(", "))]
pub struct UnknownStage(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_letters() {
        let all = Stage::list("penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature").unwrap();
        assert_eq!(all, Stage::USUAL);
        assert_eq!(Stage::letters("edskypmxt").unwrap(), Stage::USUAL);
        assert_eq!(TABLE.map(|row| row.0), Stage::USUAL);
        assert_eq!(Stage::list(" Top-K ; temp;").unwrap(), [Stage::TopK, Stage::Temperature]);
        assert_eq!(Stage::list("top_k;infill").unwrap_err(), UnknownStage("infill".into()));
        assert_eq!(Stage::letters("ki").unwrap_err(), UnknownStage("i".into()));
        assert!(Stage::list("").unwrap().is_empty());
    }
}
