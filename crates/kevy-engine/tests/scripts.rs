//! Runs the scripts in `tests/scripts/*.txt`: conversations with one engine, one file per command.
//!
//! ```text
//! # a comment
//! > SET k "a\r\nb" PX 1000
//! OK                            the reply (notation: readable::reply); `any order [..]` compares an array sorted
//! -> SET k "a\r\nb" PXAT 1700000001000
//!                               optional: the effects, one per line; `-> nothing` for none
//! RESP3> GET missing            the same in RESP3
//! (null)
//! @ +1500ms                     time passes
//! @ expire                      active expiry runs
//! @ lfu                         accesses are counted by frequency (`lru`: by time)
//! ```
//!
//! After every script its effects are replayed into an empty engine, which must then hold the same keys with the same
//! values, encodings and deadlines.

mod readable;

use bytes::BytesMut;
use kevy_engine::keyspace::{AccessTracking, Entry, ExpiryMode, Keyspace};
use kevy_engine::{Command, Context, Effects};
use kevy_proto::resp::{Args, Encoder, ErrorReply, RequestBuffer, RespVersion};
use kevy_proto::time::{Instant, Now, UnixMillis};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// When every script starts, in Unix milliseconds.
const START_MS: i64 = 1_700_000_000_000;

#[test]
fn every_script_goes_as_written() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no scripts found");
    let failures: Vec<String> = paths.iter().filter_map(|path| run(path).err()).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// A command is added with its script; where RESP3 gives its replies another shape, the script shows one.
#[test]
fn every_command_has_a_script_that_shows_its_replies() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let rows = kevy_engine::commands::families().flatten();
    let faults = rows.filter_map(|row| {
        let file = format!("{}.txt", row.name);
        let text = std::fs::read_to_string(directory.join(&file)).unwrap_or_default();
        let fault = fault_of_script(row.name, &text)?;
        Some(format!("{file}: {fault}"))
    });
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn a_script_without_the_other_shape_is_noticed() {
    let fault = |text| fault_of_script("get", text);
    assert_eq!(fault("> SET k v\nOK\n"), Some("no request of it"));
    assert_eq!(
        fault("> GET k\n(nil)\n"),
        Some("nothing in RESP3, where it differs")
    );
    assert_eq!(fault("> GET k\n(nil)\nRESP3> get k\n(null)\n"), None);
    assert_eq!(fault("> SET k v\nOK\n> GET k\n\"v\"\n"), None);
}

fn fault_of_script(name: &str, text: &str) -> Option<&'static str> {
    let own = |version| {
        let mut replies = replies(text, version);
        replies.retain(|(request, _)| request.eq_ignore_ascii_case(name.as_bytes()));
        replies
    };
    let (old, new) = (own(RespVersion::V2), own(RespVersion::V3));
    let shown = text.lines().any(|line| {
        let words = line.strip_prefix("RESP3> ").unwrap_or_default();
        let first = words.split_whitespace().next().unwrap_or_default();
        first.eq_ignore_ascii_case(name)
    });
    if old.is_empty() {
        Some("no request of it")
    } else if old != new && !shown {
        Some("nothing in RESP3, where it differs")
    } else {
        None
    }
}

/// The name of each request of a script, and the reply it gets when all of them are in `version`.
fn replies(text: &str, version: RespVersion) -> Vec<(Vec<u8>, BytesMut)> {
    let mut engine = Engine::new();
    let mut replies = Vec::new();
    for line in text.lines() {
        if let Some(directive) = line.strip_prefix("@ ") {
            engine
                .direct(directive.trim())
                .expect("a directive of a script");
        }
        let request = line.strip_prefix("RESP3> ").or(line.strip_prefix("> "));
        if let Some(arguments) =
            request.map(|request| readable::arguments(request).expect("arguments"))
        {
            let reply = engine.call(version, &arguments);
            replies.push((arguments[0].clone(), reply));
        }
    }
    replies
}

fn run(path: &Path) -> Result<(), String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
    let mut script = Script::new(&text);
    let mut faults = String::new();
    while let Some((number, line)) = script.next_line() {
        if let Err(fault) = script.step(line) {
            let _ = writeln!(faults, "{name}:{number}: {line}\n{fault}");
        }
    }
    if let Err(fault) = script.engine.check_replay() {
        let _ = writeln!(faults, "{name}: {fault}");
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults)
    }
}

struct Script<'a> {
    lines: std::iter::Peekable<std::iter::Enumerate<std::str::Lines<'a>>>,
    engine: Engine,
}

impl<'a> Script<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().enumerate().peekable(),
            engine: Engine::new(),
        }
    }

    /// The next line that says something, and its number.
    fn next_line(&mut self) -> Option<(usize, &'a str)> {
        self.lines
            .by_ref()
            .map(|(index, line)| (index + 1, line))
            .find(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
    }

    fn step(&mut self, line: &str) -> Result<(), String> {
        if let Some(directive) = line.strip_prefix("@ ") {
            return self.engine.direct(directive.trim());
        }
        let (version, request) = if let Some(request) = line.strip_prefix("RESP3> ") {
            (RespVersion::V3, request)
        } else if let Some(request) = line.strip_prefix("> ") {
            (RespVersion::V2, request)
        } else {
            return Err("neither a request nor a directive".to_owned());
        };
        let (_, expected) = self.next_line().ok_or("no reply expected")?;
        let first_effect = self.engine.effects.len();
        let arguments = readable::arguments(request)?;
        let got = readable::reply(&self.engine.call(version, &arguments))?;
        compare(expected.trim_end(), &got)?;
        self.compare_effects(first_effect)
    }

    fn compare_effects(&mut self, first: usize) -> Result<(), String> {
        let mut expected = Vec::new();
        while let Some((_, line)) = self.lines.next_if(|(_, line)| line.starts_with("-> ")) {
            expected.push(line[3..].trim_end());
        }
        let effects = self.engine.effects.iter().skip(first);
        let got: Vec<String> = effects.map(|args| readable::request(args.iter())).collect();
        match expected.as_slice() {
            [] => Ok(()),
            ["nothing"] if got.is_empty() => Ok(()),
            _ if expected == got => Ok(()),
            _ => Err(format!(
                "  expected effects {expected:?}\n  got effects      {got:?}"
            )),
        }
    }
}

fn compare(expected: &str, got: &str) -> Result<(), String> {
    let same = match expected.strip_prefix("any order ") {
        Some(expected) => sorted(expected) == sorted(got),
        None => expected == got,
    };
    if same {
        Ok(())
    } else {
        Err(format!("  expected {expected}\n  got      {got}"))
    }
}

fn sorted(array: &str) -> Vec<&str> {
    let inner = array.trim_start_matches('[').trim_end_matches(']');
    let mut items: Vec<&str> = inner.split(", ").collect();
    items.sort_unstable();
    items
}

/// One shard's data, and what a host would bring.
struct Engine {
    keyspace: Keyspace,
    effects: Effects,
    now: Now,
}

impl Engine {
    fn new() -> Self {
        Self {
            keyspace: Keyspace::new(1),
            effects: Effects::on(),
            now: Now {
                monotonic: Instant::default(),
                unix: UnixMillis(START_MS),
            },
        }
    }

    fn direct(&mut self, directive: &str) -> Result<(), String> {
        match directive {
            "expire" => while self.keyspace.expire_due(self.now, 1, &mut self.effects) {},
            "lru" => self.keyspace.set_access_tracking(AccessTracking::Lru),
            "lfu" => self.keyspace.set_access_tracking(AccessTracking::Lfu),
            _ => {
                let ms = directive
                    .strip_prefix('+')
                    .and_then(|d| d.strip_suffix("ms"));
                let ms: i64 = ms
                    .and_then(|ms| ms.parse().ok())
                    .ok_or("no such directive")?;
                self.now.unix.0 += ms;
            }
        }
        Ok(())
    }

    fn call(&mut self, version: RespVersion, arguments: &[Vec<u8>]) -> BytesMut {
        let request = RequestBuffer::from_slices(arguments.iter().map(Vec::as_slice));
        let mut out = BytesMut::new();
        let mut context = Context {
            keyspace: &mut self.keyspace,
            reply: Encoder::new(&mut out, version),
            effects: &mut self.effects,
            now: self.now,
            wait: None,
        };
        match find(request.args()) {
            Ok(command) => {
                let _ = context.run(command, request.args());
            }
            Err(error) => context.reply.error(&error),
        }
        out
    }

    /// Replays the effects into an empty engine and compares; then removes every key and checks that nothing is left.
    fn check_replay(&mut self) -> Result<(), String> {
        let mut replica = Self::new();
        replica.now = self.now;
        replica.effects = Effects::off();
        replica.keyspace.set_expiry_mode(ExpiryMode::Ignore);
        for effect in self.effects.iter() {
            check_keys(effect)?;
            let arguments: Vec<Vec<u8>> = effect.iter().map(<[u8]>::to_vec).collect();
            let reply = replica.call(RespVersion::V2, &arguments);
            if reply.first() == Some(&b'-') {
                let request = readable::request(effect.iter());
                return Err(format!("the effect {request} fails: {reply:?}"));
            }
        }
        let (expected, got) = (self.state(), replica.state());
        if expected != got {
            return Err(format!(
                "replayed effects give\n  {got:#?}\ninstead of\n  {expected:#?}"
            ));
        }
        self.empty()
    }

    /// Every key with its type, encoding, value and deadline.
    fn state(&self) -> BTreeMap<String, String> {
        self.keyspace
            .iter()
            .map(|entry| {
                let text = format!(
                    "{} {} {:?} {:?}",
                    entry.type_name(),
                    entry.encoding().name(),
                    self.contents(entry),
                    entry.deadline()
                );
                (readable::quoted(entry.key()), text)
            })
            .collect()
    }

    /// What rebuilds the value; where the order of elements means nothing, word by word in one that does not depend on it.
    fn contents(&self, entry: &Entry) -> Vec<String> {
        let mut rebuild = Effects::on();
        if let Some(copy) = self.keyspace.copy_as(entry.key(), entry.key()) {
            copy.emit_effects(&mut rebuild);
        }
        if !["hash", "set"].contains(&entry.type_name()) {
            return rebuild
                .iter()
                .map(|args| readable::request(args.iter()))
                .collect();
        }
        let arguments = rebuild.iter().flat_map(Args::iter);
        let mut words: Vec<String> = arguments.map(readable::quoted).collect();
        words.sort_unstable();
        words
    }

    fn empty(&mut self) -> Result<(), String> {
        let keys: Vec<Vec<u8>> = self.keyspace.iter().map(|e| e.key().to_vec()).collect();
        for key in keys {
            self.keyspace.take(&key);
        }
        let left = (
            self.keyspace.len(),
            self.keyspace.expires_len(),
            self.keyspace.used_bytes(),
            self.keyspace.next_deadline(),
        );
        if left == (0, 0, 0, None) {
            Ok(())
        } else {
            Err(format!(
                "keys, deadlines and bytes left without any key: {left:?}"
            ))
        }
    }
}

/// An effect concerns one key, or all, and its row says so: that is how its owner is found.
fn check_keys(effect: Args<'_>) -> Result<(), String> {
    let request = || readable::request(effect.iter());
    let row = find(effect).map_err(|error| format!("{}: {error:?}", request()))?;
    let mut positions = Vec::new();
    row.keys.positions(effect, &mut positions);
    match positions.as_slice() {
        // `LMOVE a a` names its one key twice.
        [first, others @ ..] if others.iter().all(|at| effect.at(*at) == effect.at(*first)) => {
            Ok(())
        }
        [] if effect.at(0) == b"FLUSHALL" => Ok(()),
        _ => Err(format!("{} has keys at {positions:?}", request())),
    }
}

/// The command that `args` name, with the errors a session gives.
fn find(args: Args<'_>) -> Result<&'static Command, ErrorReply> {
    let mut rows = kevy_engine::commands::families().flatten();
    let command = rows
        .find(|row| args.at(0).eq_ignore_ascii_case(row.name.as_bytes()))
        .ok_or_else(|| ErrorReply::UnknownCommand(args.at(0).to_vec()))?;
    let Some(given) = args.get(1).filter(|_| !command.subcommands.is_empty()) else {
        return accepted(command, command.name.to_owned(), args);
    };
    let subcommand = command
        .subcommands
        .iter()
        .find(|row| given.eq_ignore_ascii_case(row.name.as_bytes()))
        .ok_or_else(|| ErrorReply::UnknownSubcommand {
            given: given.to_vec(),
            container: command.name.to_uppercase(),
        })?;
    accepted(
        subcommand,
        format!("{}|{}", command.name, subcommand.name),
        args,
    )
}

fn accepted(
    command: &'static Command,
    name: String,
    args: Args<'_>,
) -> Result<&'static Command, ErrorReply> {
    if command.accepts(args.len()) {
        Ok(command)
    } else {
        Err(ErrorReply::WrongArity(name))
    }
}
