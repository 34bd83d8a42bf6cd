//! What the bytes of Redis's files do to a keyspace.
//!
//! Keys of an RDB file are put in as they are; requests of an append-only file are carried out by the engine's own commands.
//! All of it happens in one keyspace, so that a request may name keys of any shard.

use super::report::Report;
use crate::transfer::{Pieces, Progress, TransferError};
use bytes::BytesMut;
use kevy_engine::keyspace::{Expiry, ExpiryMode};
use kevy_engine::rdb::Decoded;
use kevy_engine::rdb::file::{FileReader, Item, KeyItem, Step};
use kevy_engine::redis_aof::{AofReader, AofStep};
use kevy_engine::{Context, Effects, Keyspace};
use kevy_node::command_table::{CommandTable, Handler};
use kevy_proto::resp::{Args, Encoder, ErrorReply, RespVersion};
use kevy_proto::time::Now;
use std::path::Path;

/// Commands of append-only files that change nothing that kevy has.
const NOT_KEPT: [&[u8]; 4] = [b"FUNCTION", b"SCRIPT", b"PUBLISH", b"SPUBLISH"];

/// Fills a keyspace.
pub(super) struct Loader {
    keyspace: Keyspace,
    effects: Effects,
    now: Now,
    commands: CommandTable,
    reply: BytesMut,
    /// The database that is asked for, if one is.
    chosen: Option<u64>,
    /// The one that what comes next is for.
    current: u64,
    report: Report,
}

/// Why a request is not carried out.
enum Refusal {
    /// What the command says.
    Reply(ErrorReply),
    /// It moves keys from one database to another.
    BetweenDatabases,
    /// It is a command that does not belong into an append-only file.
    Misplaced,
}

impl Loader {
    /// A loader of the keys of database `chosen`, or of the only one that has any.
    pub(super) fn new(seed: u64, now: Now, chosen: Option<u64>) -> Self {
        let mut keyspace = Keyspace::new(seed);
        // What was there when a request was made must be there when it is carried out.
        keyspace.set_expiry_mode(ExpiryMode::Ignore);
        Self {
            keyspace,
            effects: Effects::off(),
            now,
            commands: CommandTable::new(),
            reply: BytesMut::new(),
            chosen,
            current: 0,
            report: Report::default(),
        }
    }

    /// Loads a file. Only if it is the last may it be an append-only file whose end is missing.
    pub(super) fn load(
        &mut self,
        path: &Path,
        is_last: bool,
        progress: &mut Progress,
    ) -> Result<(), TransferError> {
        let mut pieces = Pieces::open(path)?;
        self.current = 0;
        let Some(first) = pieces.next(progress, self.keyspace.len())? else {
            // An increment to which nothing was added yet.
            return Ok(());
        };
        if first.starts_with(b"*") || first.starts_with(b"#") {
            let first = first.to_vec();
            let aof = AofReader::new(0);
            return self.load_requests(aof, &first, &mut pieces, is_last, progress);
        }
        let first = first.to_vec();
        let Some((offset, rest)) = self.load_keys(&first, &mut pieces, progress)? else {
            return Ok(());
        };
        let aof = AofReader::new(offset);
        self.load_requests(aof, &rest, &mut pieces, is_last, progress)
    }

    /// Loads an RDB file. If an append-only file goes on behind it: where that begins, and those of its bytes that were
    /// read already.
    fn load_keys(
        &mut self,
        first: &[u8],
        pieces: &mut Pieces,
        progress: &mut Progress,
    ) -> Result<Option<(u64, Vec<u8>)>, TransferError> {
        let path = pieces.path().to_owned();
        let fault = |fault| TransferError::Rdb {
            path: path.clone(),
            fault,
        };
        let mut reader = FileReader::new(self.keyspace.encoding_limits());
        reader.push(first);
        let mut goes_on = false;
        loop {
            match reader.next().map_err(fault)? {
                Step::Item(Item::Aux { name, value }) => {
                    let says_so = [&b"aof-base"[..], b"aof-preamble"].contains(&&*name);
                    goes_on |= says_so && *value == *b"1";
                }
                Step::Item(item) => self.take(item),
                Step::NeedsMore => match pieces.next(progress, self.keyspace.len())? {
                    Some(piece) => reader.push(piece),
                    None => reader.end().map_err(fault)?,
                },
                Step::Ended if goes_on => {
                    return Ok(Some((reader.offset(), reader.rest().to_vec())));
                }
                Step::Ended => {
                    self.report.trailing_bytes += pieces.size_bytes() - reader.offset();
                    return Ok(None);
                }
            }
        }
    }

    fn take(&mut self, item: Item<'_>) {
        match item {
            Item::Database(database) => self.current = database,
            Item::Key(_) | Item::EmptyKey(_) if !self.is_wanted() => {
                self.report.elsewhere.entry(self.current).or_default().keys += 1;
            }
            Item::Key(key) if key.deadline.is_some_and(|at| at <= self.now.unix) => {
                self.report.expired += 1;
            }
            Item::Key(key) => self.put(key),
            Item::EmptyKey(_) => self.report.empty += 1,
            Item::Function(_) => self.report.not_kept("libraries of functions"),
            Item::ModuleAux(module) => {
                let what = format!("notes of the module {module}");
                self.report.not_kept(&what);
            }
            Item::End { checked } => self.report.unchecked += u64::from(!checked),
            Item::Version(_) | Item::Aux { .. } | Item::Sizes { .. } | Item::SlotSizes { .. } => {}
        }
    }

    fn put(&mut self, item: KeyItem<'_>) {
        let mut access = self
            .keyspace
            .lookup_for_write(&item.key, self.now, &mut self.effects);
        match item.value {
            Decoded::String(text) => {
                access.set_string(&text, item.deadline.map_or(Expiry::Never, Expiry::At));
            }
            Decoded::Collection(value) => access.set_value(value, item.deadline),
        }
        access.set_access(item.idle_seconds, item.frequency);
    }

    /// Carries out the requests of an append-only file, of which `first` was read already.
    fn load_requests(
        &mut self,
        mut reader: AofReader,
        first: &[u8],
        pieces: &mut Pieces,
        is_last: bool,
        progress: &mut Progress,
    ) -> Result<(), TransferError> {
        let path = pieces.path().to_owned();
        reader.push(first);
        loop {
            let step = reader.next().map_err(|fault| TransferError::Aof {
                path: path.clone(),
                fault,
            })?;
            match step {
                AofStep::Request { offset, args } => {
                    self.carry_out(args)
                        .map_err(|refusal| refusal.into_error(&path, offset, args))?;
                }
                AofStep::NeedsMore => match pieces.next(progress, self.keyspace.len())? {
                    Some(piece) => reader.push(piece),
                    None => break,
                },
            }
        }
        match reader.tail() {
            Some(tail) if !is_last => Err(TransferError::AofTruncated {
                path,
                offset: tail.offset,
            }),
            Some(tail) => {
                self.report.torn_bytes += tail.bytes;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn carry_out(&mut self, args: Args<'_>) -> Result<(), Refusal> {
        let is = |name: &[u8]| args.at(0).eq_ignore_ascii_case(name);
        if is(b"SELECT") {
            let database = std::str::from_utf8(args.at(1)).ok();
            let database = database.and_then(|text| text.parse().ok());
            self.current = database.ok_or(Refusal::Misplaced)?;
            return Ok(());
        }
        let to_other = args
            .iter()
            .skip(3)
            .any(|word| word.eq_ignore_ascii_case(b"DB"));
        if is(b"MOVE") || is(b"SWAPDB") || is(b"COPY") && to_other {
            return Err(Refusal::BetweenDatabases);
        }
        if let Some(name) = NOT_KEPT.iter().find(|name| is(name)) {
            self.report.not_kept(&String::from_utf8_lossy(name));
            return Ok(());
        }
        // All databases are this one, too.
        if !self.is_wanted() && !is(b"FLUSHALL") {
            let elsewhere = self.report.elsewhere.entry(self.current).or_default();
            elsewhere.requests += 1;
            return Ok(());
        }
        self.run(args)
    }

    fn run(&mut self, args: Args<'_>) -> Result<(), Refusal> {
        let found = self.commands.find(args).map_err(Refusal::Reply)?;
        let Handler::Engine(command) = found.handler else {
            return Err(Refusal::Misplaced);
        };
        self.reply.clear();
        let mut context = Context {
            keyspace: &mut self.keyspace,
            reply: Encoder::new(&mut self.reply, RespVersion::V2),
            effects: &mut self.effects,
            now: self.now,
            wait: None,
        };
        self.report.requests += 1;
        context.run(command, args).map_err(Refusal::Reply)
    }

    fn is_wanted(&self) -> bool {
        self.current == self.chosen.unwrap_or(0)
    }

    /// The keys, those left out whose time has come since.
    pub(super) fn finish(mut self) -> Result<(Keyspace, Report), TransferError> {
        if self.chosen.is_none() && !self.report.elsewhere.is_empty() {
            return Err(TransferError::OtherDatabases(self.report.elsewhere()));
        }
        let is_due = |at: kevy_proto::time::UnixMillis| at <= self.now.unix;
        let due = self
            .keyspace
            .iter()
            .filter(|entry| entry.deadline().is_some_and(is_due));
        let due: Vec<Vec<u8>> = due.map(|entry| entry.key().to_vec()).collect();
        for key in &due {
            self.keyspace.take(key);
        }
        self.report.expired += due.len() as u64;
        self.report.keys = self.keyspace.len() as u64;
        Ok((self.keyspace, self.report))
    }
}

impl Refusal {
    fn into_error(self, path: &Path, offset: u64, args: Args<'_>) -> TransferError {
        let name = args.at(0).escape_ascii().to_string();
        let reason = match self {
            Self::Reply(error) => error.to_string(),
            Self::BetweenDatabases => {
                "it moves keys between databases; let Redis rewrite the file first (BGREWRITEAOF)"
                    .into()
            }
            Self::Misplaced => "no append-only file should hold it".into(),
        };
        TransferError::Request {
            path: path.to_owned(),
            offset,
            name,
            reason,
        }
    }
}
