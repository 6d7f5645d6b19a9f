//! A file that is uploaded, with its size and its hash.

use domain::kept::{Digest, Format};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Compression level of zstd.
const LEVEL: i32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    pub format: Format,
    pub path: PathBuf,
    pub size_bytes: u64,
    pub sha256: Digest,
}

impl KeptFile {
    /// Of a file that is complete.
    pub async fn of(path: PathBuf, format: Format) -> io::Result<Self> {
        let mut file = tokio::fs::File::open(&path).await?;
        let (mut hash, mut size_bytes, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
        loop {
            let read = file.read(&mut chunk).await?;
            if read == 0 {
                return Ok(Self { format, path, size_bytes, sha256: digest(hash) });
            }
            hash.update(&chunk[..read]);
            size_bytes += read as u64;
        }
    }
}

const CHUNK_BYTES: usize = 64 * 1024;

/// Compresses a stream into a file.
pub(super) async fn compress(
    mut stream: impl AsyncRead + Unpin,
    path: PathBuf,
    format: Format,
) -> io::Result<KeptFile> {
    let mut encoder = zstd::stream::Encoder::new(Hashed::create(&path)?, LEVEL)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match stream.read(&mut chunk).await? {
            0 => break,
            read => encoder.write_all(&chunk[..read])?,
        }
    }
    Ok(encoder.finish()?.finish(path, format))
}

/// Writes a stream into a file, unless it has more than `max` bytes.
pub(super) async fn copy(
    mut stream: impl AsyncRead + Unpin,
    path: PathBuf,
    format: Format,
    max: u64,
) -> io::Result<Option<KeptFile>> {
    let (mut file, mut chunk) = (Hashed::create(&path)?, vec![0; CHUNK_BYTES]);
    loop {
        match stream.read(&mut chunk).await? {
            0 => break,
            // The rest is read too, so that the program ends.
            read if file.size_bytes <= max => file.write_all(&chunk[..read])?,
            _ => {}
        }
    }
    Ok((file.size_bytes <= max).then(|| file.finish(path, format)))
}

/// A file whose hash is computed while it is written.
struct Hashed {
    file: File,
    hash: Sha256,
    size_bytes: u64,
}

impl Hashed {
    fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, hash: Sha256::new(), size_bytes: 0 })
    }

    fn finish(self, path: PathBuf, format: Format) -> KeptFile {
        KeptFile { format, path, size_bytes: self.size_bytes, sha256: digest(self.hash) }
    }
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size_bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn digest(hash: Sha256) -> Digest {
    let text: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Digest::parse(&text).expect("a hash is hexadecimal digits")
}
