//! `kevy export`: the keys of a data directory become a Redis RDB file.

use crate::glommio_host::clock::HostClock;
use crate::glommio_host::entropy::HostEntropy;
use crate::startup::data_directory;
use crate::transfer::{Progress, ToldDisk, TransferError, say};
use futures_lite::future::block_on;
use kevy_engine::Keyspace;
use kevy_engine::keyspace::Entry;
use kevy_engine::rdb::file::{FileVersion, FileWriter};
use kevy_node::host::{Clock, Entropy};
use kevy_node::log::{LAYOUT_FILE, Opener, load_directory};
use kevy_proto::time::UnixMillis;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How much is collected before it is written.
const PIECE_BYTES: usize = 1 << 20;

/// What to export, and where to.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Export {
    /// The RDB file to make; it must not exist
    #[arg(long, value_name = "FILE")]
    rdb: PathBuf,
    /// The data directory to read; no server may be using it
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

impl Export {
    /// Runs the export; exit code 1 if it fails.
    pub(crate) fn run(&self) -> ExitCode {
        match self.export() {
            Ok(Written { keys, version }) => {
                let version = version as u16;
                say(&format!(
                    "exported {keys} keys to {} (RDB version {version})",
                    self.rdb.display()
                ))
            }
            Err(error) => {
                eprintln!("kevy: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn export(&self) -> Result<Written, TransferError> {
        if self.rdb.symlink_metadata().is_ok() {
            return Err(TransferError::Exists(self.rdb.clone()));
        }
        // A lock makes the directory it is in.
        if !self.dir.join(LAYOUT_FILE).is_file() {
            return Err(TransferError::NoData(self.dir.clone()));
        }
        let _lock = data_directory::lock(&self.dir)?;
        let opener = Opener {
            shards: 1,
            run: HostEntropy.next_u64(),
            seed: HostEntropy.next_u64(),
            now: HostClock::start().now(),
        };
        let mut progress = Progress::new("export: reading", self.size_bytes()?);
        let mut disk = ToldDisk::new(&self.dir, &mut progress, 0);
        let keyspaces = block_on(load_directory(&mut disk, &opener))
            .map_err(|fault| TransferError::data(&self.dir, &fault))?;
        write_rdb(&keyspaces, &self.rdb, opener.now.unix)
    }

    /// About how many bytes are to be read: logs are read twice.
    fn size_bytes(&self) -> Result<u64, TransferError> {
        let fault = TransferError::reading(&self.dir);
        let mut bytes = 0;
        for entry in self.dir.read_dir().map_err(&fault)? {
            let entry = entry.map_err(&fault)?;
            let is_log = entry.path().extension().is_some_and(|end| end == "log");
            let length = entry.metadata().map_err(&fault)?.len();
            bytes += if is_log { 2 * length } else { length };
        }
        Ok(bytes)
    }
}

/// What an export did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    keys: u64,
    version: FileVersion,
}

/// Writes the keys whose time has not come at `now` to a new file at `path`. It has that name once it is whole and durable.
fn write_rdb(
    keyspaces: &[Keyspace],
    path: &Path,
    now: UnixMillis,
) -> Result<Written, TransferError> {
    let fault = TransferError::writing(path);
    let partial = partial_name(path);
    // What an export that was interrupted has left is of no use.
    let mut file = File::create(&partial).map_err(&fault)?;
    let written = write_keys(keyspaces, &mut file, path, now)
        .and_then(|written| file.sync_all().map(|()| written).map_err(&fault));
    match written.and_then(|written| publish(&partial, path).map(|()| written)) {
        Ok(written) => Ok(written),
        Err(error) => {
            // The first error is the one to tell.
            let _ = fs::remove_file(&partial);
            Err(error)
        }
    }
}

/// The name of the file while it is written: beside the one it becomes.
fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// Gives the file its name, unless that exists.
fn publish(partial: &Path, path: &Path) -> Result<(), TransferError> {
    let fault = TransferError::writing(path);
    // A link is made only if nothing has the name; renaming would replace what came to be meanwhile.
    fs::hard_link(partial, path).map_err(&fault)?;
    fs::remove_file(partial).map_err(&fault)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(fault)
}

fn write_keys(
    keyspaces: &[Keyspace],
    file: &mut File,
    path: &Path,
    now: UnixMillis,
) -> Result<Written, TransferError> {
    let entries = || {
        let all = keyspaces.iter().flat_map(Keyspace::iter);
        all.filter(|entry| entry.deadline().is_none_or(|at| at > now))
    };
    let count = entries().count();
    let with_deadline = entries().filter(|entry| entry.deadline().is_some()).count();
    let version = entries().map(FileVersion::needed_by).max();
    let version = version.unwrap_or(FileVersion::Redis7_0);
    let mut writer = FileWriter::new(version);
    about(&mut writer, now);
    writer.database(count as u64, with_deadline as u64);
    let bytes = keyspaces.iter().map(Keyspace::used_bytes).sum::<usize>();
    let mut progress = Progress::new("export: writing", bytes as u64);
    let mut keys = 0;
    for entry in entries() {
        keys += u64::from(writer.key(entry, now.0)?);
        progress.advance(Entry::memory_bytes(entry) as u64, keys as usize);
        if writer.waiting_bytes() >= PIECE_BYTES {
            file.write_all(&writer.take())
                .map_err(TransferError::writing(path))?;
        }
    }
    file.write_all(&writer.finish())
        .map_err(TransferError::writing(path))?;
    Ok(Written { keys, version })
}

/// Says where the file comes from; Redis reads such lines and keeps none of them.
fn about(writer: &mut FileWriter, now: UnixMillis) {
    writer.aux(b"kevy-ver", env!("CARGO_PKG_VERSION").as_bytes());
    writer.aux(b"redis-bits", b"64");
    writer.aux(b"ctime", (now.0 / 1000).to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevy_engine::Effects;
    use kevy_engine::keyspace::Expiry;
    use kevy_proto::time::Now;

    fn keyspace(keys: &[(&[u8], Option<i64>)]) -> Keyspace {
        let mut keyspace = Keyspace::new(1);
        for (key, deadline) in keys {
            let expiry = deadline.map_or(Expiry::Never, |at| Expiry::At(UnixMillis(at)));
            keyspace.set_string(key, b"v", expiry, Now::default(), &mut Effects::off());
        }
        keyspace
    }

    #[test]
    fn keys_of_all_shards_are_written_but_for_those_whose_time_has_come() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new.rdb");
        let shards = [
            keyspace(&[(b"a", None), (b"gone", Some(5))]),
            keyspace(&[(b"b", Some(2000))]),
        ];
        let written = write_rdb(&shards, &path, UnixMillis(1000)).unwrap();
        let expected = Written {
            keys: 2,
            version: FileVersion::Redis7_0,
        };
        assert_eq!(written, expected);
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"REDIS0010"));
        let sizes = b"\xfe\x00\xfb\x02\x01";
        assert!(bytes.windows(sizes.len()).any(|part| part == sizes));
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_came_to_be_meanwhile_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("old.rdb");
        fs::write(&path, "old").unwrap();
        assert!(write_rdb(&[], &path, UnixMillis(1)).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(directory.path().read_dir().unwrap().count(), 1);
    }
}
