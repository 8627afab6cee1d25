//! Quantisations in the names of files, and which files of a repository make a model.

/// Quantisations in the order in which they are taken when none is named.
const PREFERRED: [&str; 2] = ["Q4_K_M", "Q8_0"];

/// A model among files: one file, or the parts of a split one in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The quantisation, as far as the name tells, in capitals.
    pub quant: Option<String>,
    /// Paths of the files.
    pub files: Vec<String>,
    /// Parts that it should have.
    pub parts: usize,
}

impl Candidate {
    /// Whether no part is missing.
    pub fn is_complete(&self) -> bool {
        self.files.len() == self.parts
    }

    /// The file that names the model.
    pub fn first(&self) -> &str {
        &self.files[0]
    }

    /// The name of its file, without folder and ending.
    pub fn stem(&self) -> &str {
        let stem = stem(self.first());
        split(stem).map_or(stem, |split| split.prefix)
    }
}

/// Whether a text is the name of a quantisation.
pub fn is_quant(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let text = text.strip_prefix("UD-").unwrap_or(&text);
    if ["F32", "F16", "FP16", "FP32", "BF16", "MXFP4", "MXFP4_MOE", "NVFP4"].contains(&text) {
        return true;
    }
    let text = text.strip_prefix(['I', 'T']).unwrap_or(text);
    let Some(rest) = text.strip_prefix('Q') else { return false };
    let Some(rest) = rest.strip_prefix(|c: char| c.is_ascii_digit()) else { return false };
    rest.is_empty() || rest.starts_with('_') && rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The quantisation of a file by its name, in capitals.
pub fn of_file(path: &str) -> Option<String> {
    let stem = stem(path);
    let stem = split(stem).map_or(stem, |split| split.prefix);
    let words: Vec<&str> = stem.split(['-', '.']).collect();
    let at = words.iter().rposition(|word| is_quant(word))?;
    let dynamic = at > 0 && words[at - 1].eq_ignore_ascii_case("ud");
    Some(format!("{}{}", if dynamic { "UD-" } else { "" }, words[at].to_ascii_uppercase()))
}

/// The models among files. Projectors, importance matrices and separate prediction heads are none.
pub fn candidates<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<Candidate> {
    let mut paths: Vec<&str> = paths.filter(|path| is_model(path)).collect();
    paths.sort_unstable();
    let mut found: Vec<Candidate> = vec![];
    for path in paths {
        let part = split(stem(path));
        let joins = |candidate: &Candidate| {
            let last = candidate.files.last().map(String::as_str).unwrap_or_default();
            let (a, b) = (split(stem(last)), part.as_ref());
            matches!((a, b), (Some(a), Some(b)) if a.prefix == b.prefix && a.parts == b.parts && a.part + 1 == b.part)
                && folder(last) == folder(path)
        };
        match found.last_mut() {
            Some(candidate) if joins(candidate) => candidate.files.push(path.to_owned()),
            _ => found.push(Candidate {
                quant: of_file(path),
                files: vec![path.to_owned()],
                parts: part.map_or(1, |part| part.parts),
            }),
        }
    }
    // A part whose first is not there is no model.
    found.retain(|candidate| split(stem(candidate.first())).is_none_or(|part| part.part == 1));
    found
}

/// The candidate of a quantisation, or of a file without its ending; the usual one if nothing is named.
pub fn choose<'a>(candidates: &'a [Candidate], wanted: Option<&str>) -> Option<&'a Candidate> {
    let of = |quant: &str| {
        let same = |candidate: &&Candidate| candidate.quant.as_deref().is_some_and(|q| q.eq_ignore_ascii_case(quant));
        // Next to a folder of variants, the plain file is meant.
        candidates.iter().filter(same).min_by_key(|candidate| candidate.first().len())
    };
    match wanted {
        None => PREFERRED.into_iter().find_map(of).or(candidates.first()),
        Some(wanted) => of(wanted)
            .or_else(|| of(&format!("UD-{wanted}")))
            .or_else(|| candidates.iter().find(|candidate| candidate.stem().eq_ignore_ascii_case(wanted))),
    }
}

/// The names of candidates, for a message.
pub fn names(candidates: &[Candidate]) -> String {
    let name = |candidate: &Candidate| candidate.quant.clone().unwrap_or_else(|| candidate.stem().to_owned());
    candidates.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Whether a path is that of a model file.
fn is_model(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let other = name.contains("mmproj") || name.contains("imatrix") || name.starts_with("mtp-");
    name.ends_with(".gguf") && !other
}

fn folder(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..at])
}

fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.len().checked_sub(5).and_then(|at| name.split_at_checked(at)) {
        Some((stem, ending)) if ending.eq_ignore_ascii_case(".gguf") => stem,
        _ => name,
    }
}

/// The name of a part: `PREFIX-00001-of-00003`.
struct Split<'a> {
    prefix: &'a str,
    part: usize,
    parts: usize,
}

fn split(stem: &str) -> Option<Split<'_>> {
    let (rest, parts) = stem.rsplit_once("-of-")?;
    let (prefix, part) = rest.rsplit_once('-')?;
    let number = |text: &str| (text.len() == 5).then(|| text.parse::<usize>().ok()).flatten();
    let (part, parts) = (number(part)?, number(parts)?);
    (1..=parts).contains(&part).then_some(Split { prefix, part, parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quants_of_files() {
        for (file, quant) in [
            ("GLM-4.7-Flash-Q4_K_M.gguf", "Q4_K_M"),
            ("GLM-4.7-Flash-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
            ("Youtu-LLM-2B.q4_0.gguf", "Q4_0"),
            ("x.i1-IQ3_XXS.gguf", "IQ3_XXS"),
            ("BF16/Qwen3-30B-A3B-BF16-00001-of-00002.gguf", "BF16"),
            ("m-f16.GGUF", "F16"),
            ("m-TQ1_0.gguf", "TQ1_0"),
        ] {
            assert_eq!(of_file(file).as_deref(), Some(quant), "{file}");
        }
        for file in ["model.gguf", "Qwen3-8B.gguf", "a-quick-fox.gguf", ""] {
            assert_eq!(of_file(file), None, "{file}");
        }
    }

    #[test]
    fn models_of_a_repository() {
        let files = [
            "README.md",
            "mmproj-F16.gguf",
            "m-imatrix.gguf",
            "mtp-m-Q4_K_M.gguf",
            "m-UD-Q4_K_M.gguf",
            "m-Q8_0.gguf",
            "Q6_K/m-Q6_K-00002-of-00003.gguf",
            "Q6_K/m-Q6_K-00001-of-00003.gguf",
            "Q6_K/m-Q6_K-00003-of-00003.gguf",
            "m-Q5_0-00002-of-00002.gguf",
            "m-Q5_1-00001-of-00002.gguf",
        ];
        let found = candidates(files.into_iter());
        assert_eq!(names(&found), "Q6_K, Q5_1, Q8_0, UD-Q4_K_M");
        let six = choose(&found, Some("q6_k")).expect("Q6_K");
        assert!(six.is_complete() && six.files[2].ends_with("00003-of-00003.gguf"));
        assert!(!choose(&found, Some("Q5_1")).expect("Q5_1").is_complete());
        assert_eq!(choose(&found, None).expect("one").first(), "m-Q8_0.gguf");
        assert_eq!(choose(&found, Some("Q4_K_M")).expect("dynamic").first(), "m-UD-Q4_K_M.gguf");
        assert_eq!(choose(&found, Some("m-q8_0")).expect("by name").first(), "m-Q8_0.gguf");
        assert_eq!(choose(&found, Some("Q2_K")), None);
    }
}
