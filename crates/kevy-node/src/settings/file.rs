//! `kevy.toml`: every line is looked at, whatever is wrong with the others.

use super::directive::{Directive, SECTIONS, directives};
use super::fault::{Origin, nearest, plain};
use super::kind::Kind;
use super::sources::{ConfigFile, Draft};
use core::ops::Range;
use std::collections::BTreeSet;
use toml::de::{DeTable, DeValue};

impl Draft {
    /// Takes over what the file says. Its faults are in the order of its lines.
    pub(super) fn read_file(&mut self, file: &ConfigFile) {
        let earlier = self.faults.len();
        let (table, errors) = DeTable::parse_recoverable(&file.text);
        let mut lines = Lines::of(file);
        for error in errors {
            let line = lines.number(error.span().unwrap_or_default());
            // One mistake makes the parser complain several times.
            if lines.broken.insert(line) {
                let problem = format!("not TOML: {}", error.message().replace('\n', ", "));
                self.fault(
                    lines.origin(line),
                    problem,
                    "write key = value, or [section]",
                );
            }
        }
        for (key, value) in table.get_ref() {
            self.read_top(key, value.get_ref(), &lines);
        }
        self.faults[earlier..].sort_by_key(|fault| fault.origin.line());
    }

    fn read_top(&mut self, key: &Key<'_>, value: &DeValue<'_>, lines: &Lines<'_>) {
        let (line, name) = (lines.number(key.span()), key.get_ref());
        let is_section = SECTIONS.iter().any(|(section, _)| section == name);
        match value {
            DeValue::Table(entries) if is_section => self.read_section(name, entries, lines),
            _ if lines.broken.contains(&line) => {}
            DeValue::Table(_) => self.unknown_section(name, lines.origin(line)),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => self.unknown_at_top(name, is_section, lines.origin(line)),
        }
    }

    fn read_section(&mut self, section: &str, entries: &DeTable<'_>, lines: &Lines<'_>) {
        for (key, value) in entries {
            let line = lines.number(key.span());
            if lines.broken.contains(&line) {
                continue;
            }
            match Directive::by_key(section, key.get_ref()) {
                Some(row) => self.set_from_toml(row, value.get_ref(), lines.origin(line)),
                None => self.unknown_key(section, key.get_ref(), lines.origin(line)),
            }
        }
    }

    fn set_from_toml(&mut self, row: &'static Directive, value: &DeValue<'_>, origin: Origin) {
        if let Some(text) = toml_value_text(&row.kind, value) {
            self.set(row, &text, origin);
        } else {
            let found = format!("{} {}", article(value.type_str()), value.type_str());
            self.refuse(row, &found, origin);
        }
    }

    fn unknown_section(&mut self, section: &str, origin: Origin) {
        let known = SECTIONS.iter().map(|(name, _)| *name);
        let near = nearest(section, known).map(|near| format!("did you mean [{near}]?"));
        let problem = format!("unknown section [{}]", plain(section));
        self.fault(origin, problem, near.unwrap_or_else(list_of_sections));
    }

    fn unknown_at_top(&mut self, key: &str, is_section: bool, origin: Origin) {
        let problem = format!("{} stands in no section", plain(key));
        let known = directives().find(|row| row.key == key);
        let advice = match known {
            Some(row) => format!("write it below [{}]", row.section),
            None if is_section => format!("write [{key}] on a line of its own, once"),
            None => list_of_sections(),
        };
        self.fault(origin, problem, advice);
    }

    fn unknown_key(&mut self, section: &str, key: &str, origin: Origin) {
        let problem = format!("unknown key [{section}] {}", plain(key));
        let here = directives().filter(|row| row.section == section);
        let elsewhere = directives().find(|row| row.key == key);
        let advice = if let Some(row) = elsewhere {
            format!("{} belongs below [{}]", row.key, row.section)
        } else if let Some(near) = nearest(key, here.clone().map(|row| row.key)) {
            format!("did you mean {near}?")
        } else {
            let keys: Vec<&str> = here.map(|row| row.key).collect();
            format!("the keys of [{section}] are {}", keys.join(", "))
        };
        self.fault(origin, problem, advice);
    }
}

type Key<'a> = toml::Spanned<std::borrow::Cow<'a, str>>;

fn list_of_sections() -> String {
    let sections = SECTIONS.map(|(name, _)| format!("[{name}]"));
    format!("the sections are {}", sections.join(", "))
}

/// Where in a file something stands, and which of its lines are no TOML.
struct Lines<'a> {
    name: &'a str,
    /// Offset of each line's first byte.
    starts: Vec<usize>,
    /// Counted from 1.
    broken: BTreeSet<usize>,
}

impl<'a> Lines<'a> {
    fn of(file: &'a ConfigFile) -> Self {
        let ends = file.text.match_indices('\n').map(|(end, _)| end + 1);
        Self {
            name: &file.name,
            starts: core::iter::once(0).chain(ends).collect(),
            broken: BTreeSet::new(),
        }
    }

    /// The line on which these bytes start, counted from 1.
    fn number(&self, span: Range<usize>) -> usize {
        self.starts.partition_point(|start| *start <= span.start)
    }

    fn origin(&self, line: usize) -> Origin {
        Origin::File {
            name: self.name.into(),
            line,
        }
    }
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    }
}

/// The value as a [`Kind`] reads it; `None` if TOML's type does not suit the kind.
fn toml_value_text(kind: &Kind, value: &DeValue<'_>) -> Option<String> {
    match kind {
        Kind::Integer { .. } => integer_text(value),
        Kind::Memory { .. } => integer_text(value).or_else(|| value.as_str().map(Into::into)),
        Kind::Mode(_) => mode_digits(value).or_else(|| value.as_str().map(Into::into)),
        Kind::Switch(_) => value.as_bool().map(|on| on.to_string()),
        Kind::Addresses(_) => value.as_str().map(Into::into).or_else(|| words(value)),
        Kind::Choice { .. } | Kind::Text { .. } | Kind::OutputLimits(_) | Kind::Notation { .. } => {
            value.as_str().map(Into::into)
        }
    }
}

fn integer_text(value: &DeValue<'_>) -> Option<String> {
    let integer = value.as_integer()?;
    let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok()?;
    Some(number.to_string())
}

/// `770` and `0o770` both mean the octal digits 770.
fn mode_digits(value: &DeValue<'_>) -> Option<String> {
    let integer = value.as_integer()?;
    matches!(integer.radix(), 8 | 10).then(|| integer.as_str().into())
}

fn words(value: &DeValue<'_>) -> Option<String> {
    let items: Option<Vec<&str>> = value
        .as_array()?
        .iter()
        .map(|item| item.get_ref().as_str())
        .collect();
    Some(items?.join(" "))
}
