//! Makes commands from their grammar: mostly such that the command has something to do.

use fastrand::Rng;

use super::syntax::{Argument, Form, Syntax};
use super::words::{self, Range};
use crate::connection::Args;

/// A command of this grammar, `step` commands into a sequence.
pub(super) fn sentence(rng: &mut Rng, syntax: &Syntax, step: u64) -> Args {
    let range = Range::of(rng, &syntax.full_name());
    let mut speaker = Speaker {
        rng,
        syntax,
        step,
        range,
        words: syntax.name.clone(),
        count_at: None,
        keys: 0,
        repeat: None,
    };
    for argument in &syntax.arguments {
        speaker.say(argument);
    }
    speaker.words
}

struct Speaker<'a> {
    rng: &'a mut Rng,
    syntax: &'a Syntax,
    step: u64,
    range: Range,
    words: Args,
    /// Where the number of the keys that come next belongs.
    count_at: Option<usize>,
    /// How many keys came last.
    keys: usize,
    /// How often everything in this block is repeated that can be: `STREAMS key key id id`.
    repeat: Option<usize>,
}

impl Speaker<'_> {
    fn say(&mut self, argument: &Argument) {
        if argument.optional && !self.chosen(argument) {
            return;
        }
        let times = self.times(argument);
        for time in 0..times {
            if time == 0 || argument.multiple_token {
                self.words.extend(argument.token.clone());
            }
            self.content(argument);
        }
        if matches!(argument.form, Form::Key) {
            self.count(times);
        }
    }

    fn chosen(&mut self, argument: &Argument) -> bool {
        match argument.name.as_str() {
            "sortby" => self.range != Range::Index || self.rng.u8(..10) == 0,
            "count" | "withscores" | "mkstream" => self.rng.bool(),
            _ => self.rng.u8(..3) == 0,
        }
    }

    fn times(&mut self, argument: &Argument) -> usize {
        if !argument.multiple {
            return 1;
        }
        if argument.name == "weight" && self.rng.u8(..10) > 0 {
            return self.keys.max(1);
        }
        self.repeat.unwrap_or_else(|| self.rng.usize(1..4))
    }

    fn content(&mut self, argument: &Argument) {
        match &argument.form {
            Form::Token => {}
            Form::Key => {
                let key = words::key_for(self.rng, &self.syntax.group, self.range);
                self.words.push(key);
            }
            Form::Word(kind) => self.word(&argument.name, kind),
            Form::OneOf(parts) => {
                let part = self.one_of(parts);
                self.say(part);
            }
            Form::Block(parts) => self.block(parts),
        }
    }

    /// One of `parts`; the one that suits the kind of range where there is one.
    fn one_of<'p>(&mut self, parts: &'p [Argument]) -> &'p Argument {
        let wanted = match self.range {
            Range::Score => "byscore",
            Range::Lex => "bylex",
            Range::Index => "",
        };
        let suits = parts.iter().find(|part| part.name == wanted);
        let any = &parts[self.rng.usize(..parts.len())];
        suits.filter(|_| self.rng.u8(..10) > 0).unwrap_or(any)
    }

    fn block(&mut self, parts: &[Argument]) {
        let several = parts.iter().filter(|part| part.multiple).count() > 1;
        if several && self.rng.u8(..16) > 0 {
            self.repeat = Some(self.rng.usize(1..4));
        }
        for part in parts {
            self.say(part);
        }
        self.repeat = None;
    }

    fn word(&mut self, name: &str, kind: &str) {
        if self.words.last().is_some_and(|token| token == b"BLOCK") {
            let words = ["1", "2", "-1", "x"];
            let milliseconds = words[self.rng.usize(..words.len())];
            return self.words.push(milliseconds.into());
        }
        if name == "numkeys" {
            self.count_at = Some(self.words.len());
        }
        let word = words::word(self.rng, self.syntax, name, kind, self.range, self.step);
        self.words.push(word);
    }

    /// Sets the number of keys that went before them: the right one, most often.
    fn count(&mut self, keys: usize) {
        self.keys = keys;
        if let Some(at) = self.count_at.take()
            && self.rng.u8(..16) > 0
        {
            self.words[at] = keys.to_string().into_bytes();
        }
    }
}
