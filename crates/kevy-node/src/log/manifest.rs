//! Which files make up the state: one [`Layout`] for the process, one [`Manifest`] for each shard.
//!
//! Both are short texts, replaced as a whole, that end with a checksum line:
//!
//! ```text
//! kevy layout 1                 kevy shard 1
//! generation 3                  shard 0 of 4
//! shards 4                      snapshot 5 position 123456
//! crc32c 1b2c3d4e               segments 6 to 9
//!                               crc32c 9e8d7c6b
//! ```
//!
//! A *generation* is a complete set of files. Placing the keys anew, over another number of shards, writes the next
//! generation beside the old one; replacing the layout is the step that makes it count. Files of another generation are
//! what a crash in between has left.

use kevy_proto::ids::ShardId;
use kevy_proto::log::checksum;
use std::fmt::{self, Write};
use std::str::FromStr;

/// The name of the layout's file.
pub const LAYOUT_FILE: &str = "kevy.layout";

const LAYOUT_TITLE: &str = "kevy layout 1";
const MANIFEST_TITLE: &str = "kevy shard 1";

/// How the files of the data directory are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Which set of files counts.
    pub generation: u64,
    /// Over how many shards the keys are placed.
    pub shards: u16,
}

/// Which files make up a shard's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Whose they are.
    pub shard: ShardId,
    /// How many shards there are.
    pub shards: u16,
    /// What the segments build on; without one they begin with an empty shard.
    pub snapshot: Option<SnapshotFile>,
    /// The first and the last segment. The last may still be missing: the manifest is written before it.
    pub segments: (u64, u64),
}

/// A complete snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Its number.
    pub number: u64,
    /// What the log before this position did is in it.
    pub position: u64,
}

/// Why a text is no layout, or no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestFault {
    /// The checksum line is missing or wrong: it was not written to its end, or damaged.
    Checksum,
    /// It is of another kind, or of a newer version.
    Title(String),
    /// This line cannot be understood.
    Line(String),
}

/// The files of one generation, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// The generation.
    pub generation: u64,
}

impl Files {
    /// The manifest of `shard`.
    pub fn manifest(self, shard: ShardId) -> String {
        format!("{}.shard-{shard}.manifest", self.generation)
    }

    /// How the names of all its files begin.
    pub fn prefix(self, shard: ShardId) -> String {
        format!("{}.shard-{shard}.", self.generation)
    }

    /// A segment of its log.
    pub fn segment(self, shard: ShardId, segment: u64) -> String {
        format!("{}.shard-{shard}.{segment}.log", self.generation)
    }

    /// One of its snapshots.
    pub fn snapshot(self, shard: ShardId, number: u64) -> String {
        format!("{}.shard-{shard}.{number}.snapshot", self.generation)
    }

    /// The generation that a file belongs to, if it belongs to any.
    pub fn generation_of(name: &str) -> Option<u64> {
        let (generation, rest) = name.split_once('.')?;
        rest.strip_prefix("shard-")?;
        generation.parse().ok()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, shards } = self;
        let text = format!("{LAYOUT_TITLE}\ngeneration {generation}\nshards {shards}\n");
        f.write_str(&sealed(text))
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!(
            "{MANIFEST_TITLE}\nshard {} of {}\n",
            self.shard, self.shards
        );
        if let Some(SnapshotFile { number, position }) = self.snapshot {
            writeln!(text, "snapshot {number} position {position}")?;
        }
        let (first, last) = self.segments;
        writeln!(text, "segments {first} to {last}")?;
        f.write_str(&sealed(text))
    }
}

/// Adds the checksum line.
fn sealed(text: String) -> String {
    let sum = checksum(text.as_bytes());
    text + &format!("crc32c {sum:08x}\n")
}

/// The lines between the title and the checksum line.
fn unsealed<'a>(text: &'a str, title: &str) -> Result<Vec<&'a str>, ManifestFault> {
    let without_end = text.strip_suffix('\n').ok_or(ManifestFault::Checksum)?;
    let end = without_end.rfind('\n').ok_or(ManifestFault::Checksum)? + 1;
    let (body, sum) = text.split_at(end);
    if sum != format!("crc32c {:08x}\n", checksum(body.as_bytes())) {
        return Err(ManifestFault::Checksum);
    }
    let mut lines: Vec<&str> = body.lines().collect();
    if lines.first() != Some(&title) {
        let found = lines.first().copied().unwrap_or_default();
        return Err(ManifestFault::Title(found.to_owned()));
    }
    lines.remove(0);
    Ok(lines)
}

/// The numbers of a line that otherwise reads as `form`, where `#` stands for a number.
fn numbers<const N: usize>(line: &str, form: &str) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut places = numbers.iter_mut();
    let mut words = line.split(' ');
    for expected in form.split(' ') {
        let word = words.next()?;
        if expected == "#" {
            *places.next()? = word.parse().ok()?;
        } else if word != expected {
            return None;
        }
    }
    (words.next().is_none() && places.next().is_none()).then_some(numbers)
}

fn line_fault(line: Option<&&str>) -> ManifestFault {
    ManifestFault::Line(line.map_or_else(|| "(missing)".to_owned(), ToString::to_string))
}

impl FromStr for Layout {
    type Err = ManifestFault;

    fn from_str(text: &str) -> Result<Self, ManifestFault> {
        let lines = unsealed(text, LAYOUT_TITLE)?;
        let [first, second] = lines.as_slice() else {
            return Err(line_fault(lines.last()));
        };
        let [generation] = numbers(first, "generation #").ok_or(line_fault(Some(first)))?;
        let [shards] = numbers(second, "shards #").ok_or(line_fault(Some(second)))?;
        let shards = u16::try_from(shards).map_err(|_| line_fault(Some(second)))?;
        Ok(Self { generation, shards })
    }
}

impl FromStr for Manifest {
    type Err = ManifestFault;

    fn from_str(text: &str) -> Result<Self, ManifestFault> {
        let lines = unsealed(text, MANIFEST_TITLE)?;
        let (whose, snapshot, segments) = match lines.as_slice() {
            [whose, segments] => (whose, None, segments),
            [whose, snapshot, segments] => (whose, Some(snapshot), segments),
            _ => return Err(line_fault(lines.last())),
        };
        let index = |number: u64| u16::try_from(number).map_err(|_| line_fault(Some(whose)));
        let [shard, shards] = numbers(whose, "shard # of #").ok_or(line_fault(Some(whose)))?;
        let snapshot = match snapshot {
            None => None,
            Some(line) => {
                let [number, position] =
                    numbers(line, "snapshot # position #").ok_or(line_fault(Some(line)))?;
                Some(SnapshotFile { number, position })
            }
        };
        let [first, last] =
            numbers(segments, "segments # to #").ok_or(line_fault(Some(segments)))?;
        if first > last {
            return Err(line_fault(Some(segments)));
        }
        Ok(Self {
            shard: ShardId(index(shard)?),
            shards: index(shards)?,
            snapshot,
            segments: (first, last),
        })
    }
}

impl fmt::Display for ManifestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum => f.write_str("its checksum line is missing or wrong"),
            Self::Title(found) => {
                write!(f, "it begins with {found:?}, which this kevy does not know")
            }
            Self::Line(line) => write!(f, "the line {line:?} cannot be understood"),
        }
    }
}

impl std::error::Error for ManifestFault {}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(snapshot: Option<SnapshotFile>) -> Manifest {
        Manifest {
            shard: ShardId(0),
            shards: 4,
            snapshot,
            segments: (6, 9),
        }
    }

    #[test]
    fn texts_come_back() {
        let layout = Layout {
            generation: 3,
            shards: 4,
        };
        assert_eq!(layout.to_string().parse(), Ok(layout));
        let snapshot = SnapshotFile {
            number: 5,
            position: 123_456,
        };
        for manifest in [manifest(None), manifest(Some(snapshot))] {
            assert_eq!(manifest.to_string().parse(), Ok(manifest));
        }
        let text = manifest(Some(snapshot)).to_string();
        let expected =
            "kevy shard 1\nshard 0 of 4\nsnapshot 5 position 123456\nsegments 6 to 9\ncrc32c ";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let text = manifest(None).to_string();
        for length in 0..text.len() {
            assert_eq!(
                text[..length].parse::<Manifest>(),
                Err(ManifestFault::Checksum),
                "{length}"
            );
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).expect("still ASCII");
            assert_eq!(
                changed.parse::<Manifest>(),
                Err(ManifestFault::Checksum),
                "byte {at}"
            );
        }
    }

    #[test]
    fn what_is_well_sealed_but_strange_is_named() {
        let strange = sealed("kevy shard 2\nshard 0 of 4\n".to_owned());
        let fault = ManifestFault::Title("kevy shard 2".to_owned());
        assert_eq!(strange.parse::<Manifest>(), Err(fault));
        let strange = sealed("kevy shard 1\nshard 0 of 4\nsegments 9 to 6\n".to_owned());
        let fault = ManifestFault::Line("segments 9 to 6".to_owned());
        assert_eq!(strange.parse::<Manifest>(), Err(fault));
        let strange = sealed("kevy layout 1\ngeneration 1\nshards 70000\n".to_owned());
        assert_eq!(
            strange.parse::<Layout>(),
            Err(ManifestFault::Line("shards 70000".to_owned()))
        );
    }

    #[test]
    fn names_tell_their_generation() {
        let files = Files { generation: 12 };
        for name in [
            files.manifest(ShardId(3)),
            files.segment(ShardId(3), 7),
            files.snapshot(ShardId(3), 7),
        ] {
            assert_eq!(Files::generation_of(&name), Some(12), "{name}");
        }
        assert_eq!(Files::generation_of(LAYOUT_FILE), None);
        assert_eq!(Files::generation_of("12.else"), None);
    }
}
