//! Adding and removing entries: `XADD XTRIM XDEL XSETID`.

use super::id::{self, NewId};
use super::{emit_with_tail, reply_id};
use crate::commands::is_option;
use crate::number::integer;
use crate::value::EncodingLimits;
use crate::value::stream::{Entries, IdText, Keep, Stream, StreamId, Trim};
use crate::{Command, Context, EventClasses};
use alloc::string::String;
use alloc::vec::Vec;
use kevy_proto::command::{Flags, ONE_KEY, Placement, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// The commands of this file.
pub(in crate::commands) const COMMANDS: &[Command] = &[
    Row {
        name: "xadd",
        arity: -5,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted.",
        summary: "Appends a new entry to a stream",
        run: xadd,
        subcommands: &[],
    },
    Row {
        name: "xtrim",
        arity: -4,
        flags: Flags::WRITE,
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "O(N), with N being the number of evicted entries. Constant times are very small however, since \
            entries are organized in macro nodes containing multiple entries that can be released with a single \
            deallocation.",
        summary: "Trims the stream to (approximately if '~' is passed) a certain size",
        run: xtrim,
        subcommands: &[],
    },
    Row {
        name: "xdel",
        arity: -3,
        flags: Flags::WRITE.with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "O(1) for each single item to delete in the stream, regardless of the stream size.",
        summary: "Removes the specified entries from the stream. Returns the number of items actually deleted, that \
            may be different from the number of IDs passed in case certain IDs do not exist.",
        run: xdel,
        subcommands: &[],
    },
    Row {
        name: "xsetid",
        arity: -3,
        flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
        keys: ONE_KEY,
        placement: Placement::Together,
        group: "stream",
        since: "5.0.0",
        complexity: "O(1)",
        summary: "An internal command for replicating stream values",
        run: xsetid,
        subcommands: &[],
    },
];

/// The largest entry, in bytes, as in Redis: a block's largest size.
const LARGEST_ENTRY_BYTES: usize = 1 << 30;
const EXHAUSTED: ErrorReply =
    ErrorReply::text("ERR The stream has exhausted the last possible ID, unable to add more items");
const NOT_ABOVE_LAST: ErrorReply = ErrorReply::text(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);

/// What was added.
struct Added {
    id: StreamId,
    /// Entries that are left, if some were trimmed.
    left: Option<u64>,
}

fn xadd(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let options = Options::of_xadd(args)?;
    let (key, pairs) = (args.at(1), args.skip(options.end));
    if pairs.len() < 2 || pairs.len() % 2 == 1 {
        return Err(ErrorReply::WrongArity(String::from("xadd")));
    }
    if options.id == NewId::Exact(StreamId::MIN) {
        return Err(ErrorReply::text(
            "ERR The ID specified in XADD must be greater than 0-0",
        ));
    }
    if pairs.iter().map(<[u8]>::len).sum::<usize>() > LARGEST_ENTRY_BYTES {
        return Err(ErrorReply::text("ERR Elements are too large to be stored"));
    }
    let now_ms = cx.now.unix.0.max(0) as u64;
    let add = |stream: &mut Stream, limits: &EncodingLimits| {
        let entries = stream.entries_mut();
        let id = choose_id(entries, options.id, now_ms)?;
        entries.append(id, pairs, limits);
        let trimmed = options.trim.map_or(0, |trim| trim.run(entries, limits));
        let left = (trimmed > 0).then(|| entries.len());
        Ok(Added { id, left })
    };
    let added = if options.no_mkstream {
        let Some(added) = cx.keyspace.edit(key, cx.now, cx.effects, add)? else {
            cx.reply.null();
            return Ok(());
        };
        added?
    } else {
        cx.keyspace.edit_or_create(key, cx.now, cx.effects, add)??
    };
    emit_added(cx, key, &added, pairs);
    cx.keyspace.note_event(EventClasses::STREAM, "xadd", key);
    if added.left.is_some() {
        cx.keyspace.note_event(EventClasses::STREAM, "xtrim", key);
    }
    reply_id(&mut cx.reply, added.id);
    Ok(())
}

fn emit_added(cx: &mut Context<'_>, key: &[u8], added: &Added, pairs: Args<'_>) {
    let id = added.id.text();
    let mut digits = itoa::Buffer::new();
    match added.left {
        None => emit_with_tail(cx.effects, &[b"XADD", key, id.as_bytes()], pairs.iter()),
        Some(left) => {
            let left = digits.format(left).as_bytes();
            let head = [b"XADD", key, b"MAXLEN", b"=", left, id.as_bytes()];
            emit_with_tail(cx.effects, &head, pairs.iter());
        }
    }
}

fn choose_id(entries: &Entries, wanted: NewId, now_ms: u64) -> Result<StreamId, ErrorReply> {
    let last = entries.last_id();
    if last == StreamId::MAX {
        return Err(EXHAUSTED);
    }
    let of_time = |ms| {
        if ms > last.ms {
            return Some(StreamId { ms, seq: 0 });
        }
        last.next().filter(|next| next.ms == ms)
    };
    let id = match wanted {
        NewId::Auto => of_time(now_ms).or(last.next()),
        NewId::AutoSeq(ms) => of_time(ms),
        NewId::Exact(id) => Some(id).filter(|id| *id > last),
    };
    id.ok_or(NOT_ABOVE_LAST)
}

fn xtrim(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let trim = Options::of_xtrim(args)?;
    let key = args.at(1);
    let trimmed = cx.keyspace.edit(
        key,
        cx.now,
        cx.effects,
        |stream: &mut Stream, limits: &EncodingLimits| {
            let entries = stream.entries_mut();
            (trim.run(entries, limits), entries.len())
        },
    )?;
    let (removed, left) = trimmed.unwrap_or((0, 0));
    if removed > 0 {
        let mut digits = itoa::Buffer::new();
        let left = digits.format(left).as_bytes();
        cx.effects.emit(&[b"XTRIM", key, b"MAXLEN", b"=", left]);
        cx.keyspace.note_event(EventClasses::STREAM, "xtrim", key);
    }
    cx.reply.integer(removed as i64);
    Ok(())
}

/// The options of `XADD` and `XTRIM`.
#[derive(Debug)]
struct Options {
    no_mkstream: bool,
    trim: Option<TrimOption>,
    id: NewId,
    /// Where the fields begin.
    end: usize,
}

/// How to trim, as far as the request says.
#[derive(Clone, Copy, Debug)]
struct TrimOption {
    keep: Keep,
    approximately: bool,
    limit: Option<u64>,
}

impl TrimOption {
    fn run(self, entries: &mut Entries, limits: &EncodingLimits) -> u64 {
        entries.trim(Trim {
            keep: self.keep,
            approximately: self.approximately,
            limit: self.limit.unwrap_or_else(|| self.usual_limit(limits)),
        })
    }

    /// The most entries that go at once if the request does not say: the work of a request stays bounded.
    fn usual_limit(self, limits: &EncodingLimits) -> u64 {
        const BLOCKS: usize = 100;
        const LEAST: u64 = 10_000;
        const MOST: u64 = 1_000_000;
        match (self.approximately, limits.stream_node_max_entries) {
            (false, _) => 0,
            (true, 0) => LEAST,
            (true, entries) => (entries.saturating_mul(BLOCKS) as u64).min(MOST),
        }
    }
}

impl Options {
    fn of_xadd(args: Args<'_>) -> Result<Self, ErrorReply> {
        let mut parser = Parser::new(args);
        let mut id = None;
        while id.is_none() && parser.at < args.len() {
            if args.at(parser.at) != b"*" && parser.trim_option()? {
                continue;
            }
            if is_option(args, parser.at, "nomkstream") {
                parser.no_mkstream = true;
            } else {
                id = Some(id::parse_new(args.at(parser.at))?);
            }
            parser.at += 1;
        }
        // Without an id there are no fields either: the number of arguments is wrong.
        let id = id.unwrap_or(NewId::Auto);
        Ok(Self {
            no_mkstream: parser.no_mkstream,
            id,
            end: parser.at,
            trim: parser.trim()?,
        })
    }

    fn of_xtrim(args: Args<'_>) -> Result<TrimOption, ErrorReply> {
        let mut parser = Parser::new(args);
        while parser.at < args.len() {
            if !parser.trim_option()? {
                return Err(ErrorReply::Syntax);
            }
        }
        // A limit of 0 is no limit, and then this is what is missing.
        parser.trim_of_xtrim()
    }
}

#[derive(Debug)]
struct Parser<'a> {
    args: Args<'a>,
    at: usize,
    no_mkstream: bool,
    keep: Option<Keep>,
    approximately: bool,
    limit: Option<u64>,
}

impl<'a> Parser<'a> {
    fn new(args: Args<'a>) -> Self {
        Self {
            args,
            at: 2,
            no_mkstream: false,
            keep: None,
            approximately: false,
            limit: None,
        }
    }

    /// Reads `MAXLEN`, `MINID` or `LIMIT` with its value, if one stands here.
    fn trim_option(&mut self) -> Result<bool, ErrorReply> {
        if self.at + 1 >= self.args.len() {
            return Ok(false);
        }
        if is_option(self.args, self.at, "maxlen") {
            let count = integer(self.threshold()?)?;
            let count = u64::try_from(count)
                .map_err(|_| ErrorReply::text("ERR The MAXLEN argument must be >= 0."))?;
            self.keep = Some(Keep::Newest(count));
        } else if is_option(self.args, self.at, "minid") {
            self.keep = Some(Keep::From(id::parse(self.threshold()?)?));
        } else if is_option(self.args, self.at, "limit") {
            let limit = integer(self.args.at(self.at + 1))?;
            let limit = u64::try_from(limit)
                .map_err(|_| ErrorReply::text("ERR The LIMIT argument must be >= 0."))?;
            self.limit = Some(limit);
            self.at += 2;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Steps over `MAXLEN` or `MINID`, `~` or `=`, and the value, which it returns.
    fn threshold(&mut self) -> Result<&'a [u8], ErrorReply> {
        if self.keep.is_some() {
            return Err(ErrorReply::text(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            ));
        }
        self.approximately = false;
        let mut at = self.at + 1;
        if at + 1 < self.args.len() && matches!(self.args.at(at), b"~" | b"=") {
            self.approximately = self.args.at(at) == b"~";
            at += 1;
        }
        self.at = at + 1;
        Ok(self.args.at(at))
    }

    fn trim(&self) -> Result<Option<TrimOption>, ErrorReply> {
        if self.keep.is_none() && self.limit.is_some_and(|limit| limit > 0) {
            return Err(ErrorReply::text(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ));
        }
        if self.limit.is_some() && !self.approximately {
            return Err(ErrorReply::text(
                "ERR syntax error, LIMIT cannot be used without the special ~ option",
            ));
        }
        Ok(self.keep.map(|keep| TrimOption {
            keep,
            approximately: self.approximately,
            limit: self.limit,
        }))
    }

    fn trim_of_xtrim(&self) -> Result<TrimOption, ErrorReply> {
        const MISSING: ErrorReply =
            ErrorReply::text("ERR syntax error, XTRIM must be called with a trimming strategy");
        if self.keep.is_none() && self.limit == Some(0) {
            return Err(MISSING);
        }
        self.trim()?.ok_or(MISSING)
    }
}

fn xdel(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    let delete = |stream: &mut Stream, _: &EncodingLimits| {
        let ids: Result<Vec<StreamId>, _> = args.skip(2).iter().map(id::parse).collect();
        let entries = stream.entries_mut();
        let mut ids = ids?;
        ids.retain(|id| entries.delete(*id));
        Ok(ids)
    };
    let deleted = cx.keyspace.edit(key, cx.now, cx.effects, delete)?;
    let deleted = deleted.transpose()?.unwrap_or_default();
    if !deleted.is_empty() {
        let texts: Vec<IdText> = deleted.iter().map(|id| id.text()).collect();
        let ids = texts.iter().map(IdText::as_bytes);
        emit_with_tail(cx.effects, &[b"XDEL", key], ids);
        cx.keyspace.note_event(EventClasses::STREAM, "xdel", key);
    }
    cx.reply.length(deleted.len());
    Ok(())
}

fn xsetid(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let key = args.at(1);
    let last_id = id::parse(args.at(2))?;
    let (added, max_deleted_id) = setid_options(args, last_id)?;
    let set = |stream: &mut Stream, _: &EncodingLimits| {
        let ids =
            |entries: &Entries| (entries.last_id(), entries.added(), entries.max_deleted_id());
        let before = ids(stream.entries());
        stream.set_id(last_id, added, max_deleted_id)?;
        let after = ids(stream.entries());
        Ok((before != after).then_some(after))
    };
    let changed = cx.keyspace.edit(key, cx.now, cx.effects, set)?;
    if changed.ok_or(ErrorReply::NoSuchKey)??.is_some() {
        let (last, deleted) = (last_id.text(), max_deleted_id.map(StreamId::text));
        let mut digits = itoa::Buffer::new();
        let mut request = Vec::from([&b"XSETID"[..], key, last.as_bytes()]);
        if let Some(added) = added {
            request.extend([&b"ENTRIESADDED"[..], digits.format(added).as_bytes()]);
        }
        if let Some(deleted) = &deleted {
            request.extend([&b"MAXDELETEDID"[..], deleted.as_bytes()]);
        }
        cx.effects.emit(&request);
    }
    cx.keyspace.note_event(EventClasses::STREAM, "xsetid", key);
    cx.reply.ok();
    Ok(())
}

/// Reads `[ENTRIESADDED n] [MAXDELETEDID id]`; the id 0-0 says nothing.
fn setid_options(
    args: Args<'_>,
    last_id: StreamId,
) -> Result<(Option<i64>, Option<StreamId>), ErrorReply> {
    let (mut added, mut max_deleted_id) = (None, StreamId::MIN);
    let mut at = 3;
    while at < args.len() {
        if at + 1 == args.len() {
            return Err(ErrorReply::Syntax);
        }
        let value = args.at(at + 1);
        if is_option(args, at, "entriesadded") {
            let count = integer(value)?;
            if count < 0 {
                return Err(ErrorReply::text("ERR entries_added must be positive"));
            }
            added = Some(count);
        } else if is_option(args, at, "maxdeletedid") {
            max_deleted_id = id::parse(value)?;
            if last_id < max_deleted_id {
                return Err(ErrorReply::text(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(ErrorReply::Syntax);
        }
        at += 2;
    }
    let max_deleted_id = Some(max_deleted_id).filter(|id| *id != StreamId::MIN);
    Ok((added, max_deleted_id))
}
