//! Models split over several files.
//!
//! The files are named `PREFIX-00001-of-00003.gguf` and so on. Each says its number in `split.no` (from 0) and how many
//! there are in `split.count`; the first carries the metadata of the model. Names are only ever derived from the path
//! that the user gave, never from what a file says.

use crate::error::Error;
use crate::shard::Shard;
use std::path::{Path, PathBuf};

/// Opens the file at `path` and, if it is the first of several, the others.
pub(crate) fn open_all(path: &Path) -> Result<Vec<Shard>, Error> {
    let first = Shard::open(path)?;
    let count = check_first(&first)?;
    let mut shards = vec![first];
    for number in 1..count {
        let wrong_name = || Error::SplitName { count }.in_file(path);
        let sibling = sibling(path, number, count).ok_or_else(wrong_name)?;
        shards.push(Shard::open(&sibling)?);
    }
    check(&shards)?;
    Ok(shards)
}

/// The number of files that the first file announces (1 if it says nothing), or an error if it is not the first.
fn check_first(shard: &Shard) -> Result<u64, Error> {
    let read = || {
        let count: u64 = shard.metadata.find::<u16>("split.count")?.unwrap_or(1).max(1).into();
        match shard.metadata.find::<u64>("split.no")?.unwrap_or(0) {
            0 => Ok(count),
            no => {
                let first = shard
                    .path
                    .as_deref()
                    .and_then(|path| named(path, no, count))
                    .map(|(prefix, folder)| folder.join(name(&prefix, 0, count)));
                Err(Error::NotFirstShard { no, count, first })
            }
        }
    };
    read().map_err(|problem| shard.locate(problem))
}

/// Checks that the shards are all of one model and in order.
pub(crate) fn check(shards: &[Shard]) -> Result<(), Error> {
    let Some(first) = shards.first() else {
        return Ok(());
    };
    let count = check_first(first)?;
    if count != shards.len() as u64 {
        let given = shards.len() as u64;
        return Err(first.locate(Error::SplitIncomplete { given, count }));
    }
    for (expected, shard) in (0u64..).zip(shards).skip(1) {
        check_sibling(first, shard, expected, count).map_err(|problem| shard.locate(problem))?;
    }
    let found = shards.iter().map(|shard| shard.tensors.len() as u64).sum();
    match first.metadata.find::<i64>("split.tensors.count").map_err(|problem| first.locate(problem))? {
        Some(expected) if u64::try_from(expected) != Ok(found) => {
            Err(first.locate(Error::SplitTensors { found, expected }))
        }
        _ => Ok(()),
    }
}

fn check_sibling(first: &Shard, shard: &Shard, number: u64, count: u64) -> Result<(), Error> {
    let found = shard.metadata.u64("split.no")?;
    if found != number {
        return Err(Error::SplitNumber { found, expected: number });
    }
    let found = shard.metadata.u64("split.count")?;
    if found != count {
        return Err(Error::SplitCount { found, expected: count });
    }
    let key = "general.architecture";
    if let Some(found) = shard.metadata.find::<&str>(key)? {
        let expected = first.metadata.find::<&str>(key)?.unwrap_or_default();
        if found != expected {
            return Err(Error::SplitArchitecture { found: found.to_owned(), expected: expected.to_owned() });
        }
    }
    Ok(())
}

/// File name of shard `number` (from 0) of `count`.
pub(crate) fn name(prefix: &str, number: u64, count: u64) -> String {
    format!("{prefix}-{:05}-of-{count:05}.gguf", number + 1)
}

/// Prefix and folder of a path that is named as shard `number` of `count`.
fn named(path: &Path, number: u64, count: u64) -> Option<(String, PathBuf)> {
    let prefix = path.file_name()?.to_str()?.strip_suffix(&name("", number, count))?;
    Some((prefix.to_owned(), path.parent()?.to_owned()))
}

/// Path of shard `number`, from the path of the first.
fn sibling(first: &Path, number: u64, count: u64) -> Option<PathBuf> {
    let (prefix, folder) = named(first, 0, count)?;
    Some(folder.join(name(&prefix, number, count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let first = Path::new("/models/glm-00001-of-00012.gguf");
        assert_eq!(sibling(first, 11, 12).unwrap(), Path::new("/models/glm-00012-of-00012.gguf"));
        assert_eq!(sibling(first, 1, 3), None);
        assert_eq!(sibling(Path::new("glm.gguf"), 1, 3), None);
        assert_eq!(sibling(Path::new("a-00001-of-00002.gguf"), 1, 2).unwrap(), Path::new("a-00002-of-00002.gguf"));
    }
}
