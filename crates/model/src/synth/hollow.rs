//! Files without weights: zeros that take no room on disk, for what looks at shapes and types only.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes of zeros that are written at a time.
const CHUNK: usize = 1 << 20;

static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// A new file in which chunks of [`zeros`] are holes.
pub struct Hollow(File);

impl Hollow {
    /// Makes the file.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Hollow> {
        Ok(Hollow(File::create(path)?))
    }

    /// Gives it its size, of which the end may be a hole.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }
}

impl Write for Hollow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() == CHUNK && bytes == ZEROS {
            self.0.seek(SeekFrom::Current(CHUNK as i64))?;
            return Ok(CHUNK);
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes so many zeros.
///
/// # Errors
/// What the sink says.
pub fn zeros(out: &mut dyn Write, bytes: u64) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let n = left.min(CHUNK as u64);
        out.write_all(&ZEROS[..n as usize])?;
        left -= n;
    }
    Ok(())
}
