//! Finds the row of a command by its name.

use crate::commands::{self, NodeCommand};
use crate::stopwatch::is_cheap;
use hashbrown::HashMap;
use kevy_engine::Command;
use kevy_proto::command::{Flags, Row};
use kevy_proto::resp::{Args, ErrorReply};

/// Longest name of a command or subcommand.
const LONGEST_NAME: usize = 32;

/// A command, wherever it runs. Copying it copies a reference.
#[derive(Clone, Copy, Debug)]
pub enum Handler {
    /// Runs on keys.
    Engine(&'static Command),
    /// Runs on the session or the control plane.
    Node(&'static NodeCommand),
}

/// A command that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The command.
    pub handler: Handler,
    /// Its number, for counters kept in an array.
    pub index: usize,
}

/// All commands by name.
#[derive(Debug)]
pub struct CommandTable {
    by_name: HashMap<&'static str, usize, foldhash::fast::FixedState>,
    /// Top-level commands and, behind them, subcommands.
    all: Vec<Named>,
    /// The command found last, as the client wrote it: pipelines repeat themselves.
    last: Option<Remembered>,
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    name: [u8; LONGEST_NAME],
    length: usize,
    found: Found,
}

impl Remembered {
    fn new(name: &[u8], found: Found) -> Option<Self> {
        let mut remembered = Self {
            name: [0; LONGEST_NAME],
            length: name.len(),
            found,
        };
        remembered.name.get_mut(..name.len())?.copy_from_slice(name);
        Some(remembered)
    }

    fn recall(self, name: &[u8]) -> Option<Found> {
        (self.name[..self.length] == *name).then_some(self.found)
    }
}

/// A command under its full name.
#[derive(Clone, Debug)]
pub struct Named {
    /// `get`, `client|id`.
    pub full_name: &'static str,
    /// The command.
    pub handler: Handler,
    /// Numbers of its subcommands in the table.
    pub subcommands: Vec<usize>,
    /// Whether its duration, with few arguments, is not worth a reading of the clock.
    pub(crate) is_cheap: bool,
}

impl Default for CommandTable {
    fn default() -> Self {
        Self::new()
    }
}

impl CommandTable {
    /// Builds the table from the rows of engine and node.
    pub fn new() -> Self {
        let mut table = Self {
            by_name: HashMap::default(),
            all: Vec::new(),
            last: None,
        };
        for row in kevy_engine::commands::families().flatten() {
            table.add(row, Handler::Engine);
        }
        for row in commands::families().flatten() {
            table.add(row, Handler::Node);
        }
        table
    }

    fn add<H>(&mut self, row: &'static Row<H>, handler: fn(&'static Row<H>) -> Handler) {
        // Engine and node may each have subcommands of one container (`MEMORY`): the second adds to the first.
        let known = self.by_name.get(row.name).copied();
        debug_assert!(
            known.is_none() || !row.subcommands.is_empty(),
            "two rows named {}",
            row.name
        );
        let index = known.unwrap_or(self.all.len());
        if known.is_none() {
            self.by_name.insert(row.name, index);
            self.all.push(Named {
                full_name: row.name,
                handler: handler(row),
                subcommands: Vec::new(),
                is_cheap: is_cheap(handler(row)),
            });
        }
        for subcommand in row.subcommands {
            let number = self.all.len();
            // Once per start and row; the names live as long as the process.
            let full_name = Box::leak(format!("{}|{}", row.name, subcommand.name).into_boxed_str());
            self.all.push(Named {
                full_name,
                handler: handler(subcommand),
                subcommands: Vec::new(),
                is_cheap: is_cheap(handler(subcommand)),
            });
            self.all[index].subcommands.push(number);
        }
    }

    /// Commands and subcommands; [`Found::index`] counts in here.
    pub fn all(&self) -> &[Named] {
        &self.all
    }

    /// The number of the top-level command `name` (any case).
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        let mut lower = [0; LONGEST_NAME];
        self.by_name.get(lower_case(name, &mut lower)?).copied()
    }

    /// The number of the command of this full name (`config|get`).
    pub fn position_of_full_name(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|named| named.full_name == name)
    }

    /// Finds the command that `args` name and checks its arity.
    ///
    /// # Errors
    /// Unknown command or subcommand, wrong number of arguments, worded as Redis does.
    pub fn find(&mut self, args: Args<'_>) -> Result<Found, ErrorReply> {
        let name = args.at(0);
        if let Some(found) = self.last.and_then(|last| last.recall(name))
            && found.accepts(args.len())
        {
            return Ok(found);
        }
        let index = self
            .position(name)
            .ok_or_else(|| ErrorReply::unknown_command(args))?;
        let index = self.subcommand(index, args)?;
        let found = Found {
            handler: self.all[index].handler,
            index,
        };
        if !found.accepts(args.len()) {
            return Err(ErrorReply::WrongArity(self.all[index].full_name.to_owned()));
        }
        if self.by_name.get(self.all[index].full_name) == Some(&index) {
            self.last = Remembered::new(name, found);
        }
        Ok(found)
    }

    fn subcommand(&self, index: usize, args: Args<'_>) -> Result<usize, ErrorReply> {
        let container = &self.all[index];
        let (Some(given), false) = (args.get(1), container.subcommands.is_empty()) else {
            return Ok(index);
        };
        let matches = |number: &&usize| {
            self.all[**number]
                .handler
                .name()
                .as_bytes()
                .eq_ignore_ascii_case(given)
        };
        container
            .subcommands
            .iter()
            .find(matches)
            .copied()
            .ok_or_else(|| unknown_subcommand(given, container.full_name))
    }
}

/// `DEBUG` is no container in Redis: it has an error of its own.
fn unknown_subcommand(given: &[u8], container: &str) -> ErrorReply {
    if container == "debug" {
        let before = "ERR unknown subcommand or wrong number of arguments for '";
        ErrorReply::quoting(before, given, "'. Try DEBUG HELP.")
    } else {
        ErrorReply::unknown_subcommand(given, container)
    }
}

impl Found {
    /// Whether `count` arguments suit the command's arity.
    fn accepts(&self, count: usize) -> bool {
        match self.handler {
            Handler::Engine(row) => row.accepts(count),
            Handler::Node(row) => row.accepts(count),
        }
    }
}

impl Handler {
    /// The command's own name, without its container's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine(row) => row.name,
            Self::Node(row) => row.name,
        }
    }

    /// The flags of its row.
    pub fn flags(self) -> Flags {
        match self {
            Self::Engine(row) => row.flags,
            Self::Node(row) => row.flags,
        }
    }
}

fn lower_case<'a>(name: &[u8], lower: &'a mut [u8; LONGEST_NAME]) -> Option<&'a str> {
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    std::str::from_utf8(lower).ok()
}
