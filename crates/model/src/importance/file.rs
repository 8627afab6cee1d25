//! Files of importances: GGUF with two tensors for each (`.in_sum2`, sums of squares, and `.counts`), and the older format,
//! which is read and written too: a count of entries; for each the length of its name, the name, how often it was called,
//! how many values follow, and the values, which are mean squares times the calls; then the windows and the name of the text.

use super::{Importances, Sums};
use gguf::{GgmlType, Gguf, Partial, WriteError, Writer};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use thiserror::Error;

/// Ends of the names of tensors.
const SQUARES: &str = ".in_sum2";
const COUNTS: &str = ".counts";

/// Keys of the metadata.
const TEXTS: &str = "imatrix.datasets";
const WINDOWS: &str = "imatrix.chunk_count";
const WINDOW: &str = "imatrix.chunk_size";

/// Rows of the older format are counted in windows of so many tokens, as it does not say of how many.
const OLD_WINDOW: u32 = 512;

/// Why a file of importances cannot be read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that is damaged.
    #[error("{path}: {source}")]
    Container {
        /// The file.
        path: String,
        /// What is wrong.
        source: gguf::Error,
    },
    /// A file of something else, or one that is cut off.
    #[error("{path} is no importance matrix: {what}")]
    Other {
        /// The file.
        path: String,
        /// What it lacks.
        what: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file cannot be written.
    #[error("cannot write {path}: {source}")]
    Sink {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Importances {
    /// Reads a file of either format.
    ///
    /// # Errors
    /// What cannot be read, and what is no importance matrix, with the reason.
    pub fn read(path: &Path) -> Result<Importances, FileError> {
        let name = || path.display().to_string();
        let bytes = std::fs::read(path).map_err(|source| FileError::Read { path: name(), source })?;
        let other = |what: String| FileError::Other { path: name(), what };
        let read = if bytes.starts_with(b"GGUF") {
            let file = Gguf::parse(bytes).map_err(|source| FileError::Container { path: name(), source })?;
            of_gguf(&file).map_err(other)?
        } else {
            Old(&bytes)
                .importances()
                .ok_or_else(|| other("it is neither GGUF nor complete in the older format".into()))?
        };
        for (tensor, sums) in &read.tensors {
            let bad = |v: &f64| !v.is_finite() || *v < 0.0;
            if sums.rows.is_empty() || sums.squares.len() % sums.rows.len() != 0 {
                return Err(other(format!("{tensor} has {} values in {} parts", sums.squares.len(), sums.rows.len())));
            }
            if let Some(value) = sums.squares.iter().chain(&sums.rows).find(|v| bad(v)) {
                return Err(other(format!("{tensor} has {value} as a sum of squares or rows")));
            }
        }
        match read.tensors.is_empty() {
            true => Err(other("it has no sums of squares".into())),
            false => Ok(read),
        }
    }

    /// Writes a GGUF file.
    ///
    /// # Errors
    /// What the system says; what was at `path` is then as it was.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        let mut writer = Writer::new();
        writer.set("general.type", "imatrix").set(TEXTS, self.texts.clone());
        writer.set(WINDOWS, self.windows.0).set(WINDOW, self.windows.1);
        for (name, sums) in &self.tensors {
            let matrices = sums.rows.len() as u64;
            writer.tensor(&format!("{name}{SQUARES}"), GgmlType::F32, &[sums.columns() as u64, matrices])?;
            writer.tensor(&format!("{name}{COUNTS}"), GgmlType::F32, &[1, matrices])?;
        }
        writer.write(path, |tensor, out| {
            let of = |end: &str| tensor.name.strip_suffix(end).and_then(|name| self.tensors.get(name));
            let values = of(SQUARES).map(|sums| &sums.squares).or_else(|| of(COUNTS).map(|sums| &sums.rows));
            values.into_iter().flatten().try_for_each(|v| out.write_all(&(*v as f32).to_le_bytes()))
        })?;
        Ok(())
    }

    /// Writes a file of the older format, which has one count for all matrices of a tensor and the name of one text.
    ///
    /// # Errors
    /// What the system says; what was at `path` is then as it was.
    pub fn write_old(&self, path: &Path) -> Result<(), FileError> {
        let mut bytes = (self.tensors.len() as i32).to_le_bytes().to_vec();
        let word = |bytes: &mut Vec<u8>, value: usize| bytes.extend((value as i32).to_le_bytes());
        let window = f64::from(self.windows.1.max(1));
        for (name, sums) in &self.tensors {
            let most = sums.rows.iter().fold(0f64, |most, rows| most.max(*rows));
            let calls = (most / window).ceil();
            word(&mut bytes, name.len());
            bytes.extend(name.as_bytes());
            word(&mut bytes, calls as usize);
            word(&mut bytes, sums.squares.len());
            bytes.extend(sums.means().iter().flat_map(|mean| (mean * calls as f32).to_le_bytes()));
        }
        let text = self.texts.first().map_or("", String::as_str);
        word(&mut bytes, self.windows.0 as usize);
        word(&mut bytes, text.len());
        bytes.extend(text.as_bytes());
        let sink = |source| FileError::Sink { path: path.display().to_string(), source };
        let mut file = Partial::create(path).map_err(sink)?;
        file.write_all(&bytes).map_err(sink)?;
        file.keep().map_err(sink)
    }
}

fn of_gguf(file: &Gguf) -> Result<Importances, String> {
    let floats = |name: &str| -> Result<Vec<f64>, String> {
        let tensor = file.tensor(name).ok_or_else(|| format!("there is no {name}"))?;
        if tensor.ty != GgmlType::F32 {
            return Err(format!("{name} is {} and not F32", tensor.ty));
        }
        let (words, _) = file.data(tensor).as_chunks();
        Ok(words.iter().map(|word| f32::from_le_bytes(*word).into()).collect())
    };
    let mut tensors = BTreeMap::new();
    for tensor in file.tensors() {
        if let Some(name) = tensor.name.strip_suffix(SQUARES) {
            let sums = Sums { squares: floats(&tensor.name)?, rows: floats(&format!("{name}{COUNTS}"))? };
            tensors.insert(name.to_owned(), sums);
        }
    }
    let number = |key| file.metadata().u64(key).ok().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let texts = file
        .metadata()
        .strings(TEXTS)
        .map(|texts| texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect());
    Ok(Importances { tensors, texts: texts.unwrap_or_default(), windows: (number(WINDOWS), number(WINDOW)) })
}

/// What is left of a file of the older format.
struct Old<'a>(&'a [u8]);

impl<'a> Old<'a> {
    fn importances(mut self) -> Option<Importances> {
        let mut tensors = BTreeMap::new();
        for _ in 0..self.number()? {
            let name = self.text()?;
            let calls = f64::from(u32::try_from(self.number()?).ok()?);
            let values = self.number()?;
            let (words, _) = self.bytes(values.checked_mul(4)?)?.as_chunks();
            // Mean squares times the calls; a tensor that was never called has the means.
            let rows = calls * f64::from(OLD_WINDOW);
            let factor = if calls > 0.0 { f64::from(OLD_WINDOW) } else { 1.0 };
            let squares = words.iter().map(|word| f64::from(f32::from_le_bytes(*word)) * factor).collect();
            tensors.insert(name, Sums { squares, rows: vec![rows.max(1.0)] });
        }
        let windows = self.number().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let texts = self.text().into_iter().filter(|text| !text.is_empty()).collect();
        Some(Importances { tensors, texts, windows: (windows, OLD_WINDOW) })
    }

    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<usize> {
        let word = self.bytes(4)?.try_into().ok()?;
        usize::try_from(i32::from_le_bytes(word)).ok()
    }

    fn text(&mut self) -> Option<String> {
        let n = self.number()?;
        Some(String::from_utf8_lossy(self.bytes(n)?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Importances {
        let sums = |squares: &[f64], rows: &[f64]| Sums { squares: squares.to_vec(), rows: rows.to_vec() };
        let tensors = [
            ("blk.0.ffn_down.weight".to_owned(), sums(&[512.0, 1024.0, 0.0], &[1024.0])),
            ("blk.0.ffn_up_exps.weight".to_owned(), sums(&[512.0, 256.0, 128.0, 64.0], &[1024.0, 512.0])),
        ];
        Importances { tensors: tensors.into(), texts: vec!["a text".into()], windows: (2, 512) }
    }

    fn through_a_file(write: impl Fn(&Importances, &Path) -> Result<(), FileError>, name: &str) -> Importances {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        write(&some(), &path).expect("it is written");
        Importances::read(&path).expect("it is read")
    }

    #[test]
    fn gguf_files_keep_all() {
        assert_eq!(through_a_file(Importances::write, "i.gguf"), some());
    }

    #[test]
    fn files_of_the_older_format_keep_means() {
        let read = through_a_file(Importances::write_old, "i.dat");
        assert_eq!((read.windows, &read.texts), (some().windows, &some().texts));
        for (name, sums) in &some().tensors {
            assert_eq!(read.tensors[name].means(), sums.means(), "{name}");
        }
    }

    #[test]
    fn what_is_no_importance_matrix_is_refused_by_its_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("i");
        let said = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("it is written");
            Importances::read(&path).expect_err("no importances").to_string()
        };
        let mut old = vec![];
        some().write_old(&path).expect("it is written");
        old.extend(std::fs::read(&path).expect("a file"));
        for cut in [0, 3, 30, 50] {
            assert!(said(&old[..cut]).ends_with("neither GGUF nor complete in the older format"), "{cut}");
        }
        let model = Writer::new().to_vec(|_, _| Ok(())).expect("a file");
        assert!(said(&model).ends_with("it has no sums of squares"));
        let mut broken = some();
        broken.tensors.get_mut("blk.0.ffn_down.weight").expect("it is there").squares[0] = f64::NAN;
        broken.write(&path).expect("it is written");
        let error = Importances::read(&path).expect_err("not a number").to_string();
        assert!(error.ends_with("blk.0.ffn_down.weight has NaN as a sum of squares or rows"), "{error}");
        let error = Importances::read(&folder.path().join("none")).expect_err("no file").to_string();
        assert!(error.starts_with("cannot read "), "{error}");
    }
}
