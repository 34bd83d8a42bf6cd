//! An inspection in words, one line for each file.

use kevy_node::log::{
    Cut, FileInspection, FileState, Inspection, Leftover, Manifest, ShardInspection,
};
use kevy_proto::log::FileKind;
use std::fmt::Write;

/// Transactions that are named; of more only the number is told.
const NAMED_TRANSACTIONS: usize = 20;

/// Everything that was found. Writing to a string does not fail, so that results are not looked at.
pub(super) fn describe(inspection: &Inspection) -> String {
    let layout = inspection.layout;
    let mut text = format!(
        "layout: generation {}, shards {}\n",
        layout.generation, layout.shards
    );
    for shard in &inspection.shards {
        describe_shard(&mut text, shard);
    }
    describe_transactions(&mut text, inspection);
    for (name, leftover) in &inspection.leftovers {
        let _ = writeln!(text, "other file: {name}: {}", kind_of(*leftover));
    }
    text
}

/// The last line: what to do.
pub(super) fn verdict(inspection: &Inspection, wants_repair: bool) -> &'static str {
    let is_torn = |file: &FileInspection| matches!(file.state, FileState::Torn { .. });
    let mut files = inspection.shards.iter().flat_map(|shard| &shard.files);
    match (inspection.is_whole(), wants_repair) {
        (true, _) if files.any(is_torn) => {
            "whole, but for a torn tail that the next start keeps aside and cuts\n"
        }
        (true, _) => "whole\n",
        (false, false) => {
            "DAMAGED: a server does not start with it. Bring it back from a backup, or let --repair cut the logs \
             before what is damaged\n"
        }
        (false, true) => "DAMAGED: a server does not start with it. Bring it back from a backup\n",
    }
}

fn describe_shard(text: &mut String, shard: &ShardInspection) {
    let _ = match &shard.manifest {
        Ok(manifest) => writeln!(text, "shard {}: {}", shard.shard, contents(manifest)),
        Err(fault) => writeln!(text, "shard {}: DAMAGED: {fault}", shard.shard),
    };
    for file in &shard.files {
        describe_file(text, file);
    }
}

fn contents(manifest: &Manifest) -> String {
    let (first, last) = manifest.segments;
    let snapshot = manifest.snapshot.map_or_else(String::new, |snapshot| {
        format!(
            "snapshot {} of position {}, ",
            snapshot.number, snapshot.position
        )
    });
    format!("{snapshot}segments {first} to {last}")
}

fn describe_file(text: &mut String, file: &FileInspection) {
    let _ = write!(text, "  {}: ", file.file);
    let _ = match file.kind {
        FileKind::Snapshot => file
            .keys
            .map_or(Ok(()), |keys| write!(text, "{keys} keys, ")),
        FileKind::Log => {
            let (from, to) = file.positions;
            write!(text, "positions {from} to {to}, ")
        }
    };
    let (frames, entries) = (file.whole.frames, file.whole.entries);
    let _ = write!(
        text,
        "{frames} frames with {entries} entries, {} bytes; ",
        file.bytes
    );
    let rest = file.rest_bytes();
    let _ = match &file.state {
        FileState::Whole => writeln!(text, "whole"),
        FileState::Torn { offset } => writeln!(text, "torn tail of {rest} bytes at byte {offset}"),
        FileState::Missing => writeln!(text, "DAMAGED: it is missing"),
        FileState::Unreadable(fault) => writeln!(text, "DAMAGED: {fault}"),
        FileState::Damaged(fault) => writeln!(
            text,
            "DAMAGED: {fault}. Behind that are {rest} bytes, of which {} frames with {} entries can be read",
            file.behind.frames, file.behind.entries
        ),
    };
}

fn describe_transactions(text: &mut String, inspection: &Inspection) {
    let dropped = &inspection.dropped;
    if !dropped.is_empty() {
        let _ = write!(
            text,
            "transactions over several shards: {} are incomplete and are dropped at the next start:",
            dropped.len()
        );
        for (run, id) in dropped.iter().take(NAMED_TRANSACTIONS) {
            let _ = write!(
                text,
                " {}/{} of run {run:016x}",
                id.coordinator, id.sequence
            );
        }
        text.push('\n');
    }
    if inspection.above.is_some() {
        let _ = writeln!(
            text,
            "transactions over several shards: one is incomplete and others may have seen it: {} entries of its time \
             and later are dropped at the next start",
            inspection.skipped_entries
        );
    }
}

fn kind_of(leftover: Leftover) -> &'static str {
    match leftover {
        Leftover::TornTail => "a torn tail that an earlier start has cut; not needed",
        Leftover::DamagedPart => "what a repair has cut; not needed",
        Leftover::EarlierGeneration => {
            "the data before it was placed over another number of shards; not needed"
        }
        Leftover::Unfinished => "unfinished work; the next start removes it",
    }
}

/// What a repair has done.
pub(super) fn describe_cut(cut: &Cut) -> String {
    let mut text = format!(
        "repaired: shard {}: the log now ends with byte {} of segment {}. Lost: {} bytes, of which {} frames with {} \
         entries could be read\n",
        cut.shard, cut.offset, cut.segment, cut.lost_bytes, cut.lost.frames, cut.lost.entries
    );
    for copy in &cut.copies {
        let _ = writeln!(
            text,
            "  {} from byte {} on is kept in {}",
            copy.file, copy.offset, copy.kept_in
        );
    }
    text
}
