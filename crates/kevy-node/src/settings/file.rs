//! `kevy.toml`: every line is looked at, whatever is wrong with the others.

use super::directive::{DIRECTIVES, Directive, SECTIONS};
use super::fault::{Origin, nearest, plain};
use super::kind::{Invalid, Kind};
use super::sources::{ConfigFile, Draft};
use toml::de::{DeTable, DeValue};

impl Draft {
    pub(super) fn read_file(&mut self, file: &ConfigFile) {
        let (table, errors) = DeTable::parse_recoverable(&file.text);
        let lines = Lines(file);
        let mut broken_lines = Vec::new();
        for error in errors {
            let line = lines.number(error.span().map_or(0, |span| span.start));
            // One mistake makes the parser complain several times.
            if !broken_lines.contains(&line) {
                broken_lines.push(line);
                let problem = format!("not TOML: {}", error.message().replace('\n', ", "));
                self.fault(
                    lines.origin(line),
                    problem,
                    "write key = value, or [section]",
                );
            }
        }
        for (key, value) in table.get_ref() {
            let line = lines.number(key.span().start);
            if let DeValue::Table(entries) = value.get_ref() {
                self.read_section(key.get_ref(), entries, line, &lines, &broken_lines);
            } else if !broken_lines.contains(&line) {
                self.unknown_at_top(key.get_ref(), lines.origin(line));
            }
        }
    }

    fn read_section(
        &mut self,
        section: &str,
        entries: &DeTable<'_>,
        line: usize,
        lines: &Lines<'_>,
        broken: &[usize],
    ) {
        if !SECTIONS.iter().any(|(known, _)| *known == section) {
            let known = SECTIONS.iter().map(|(name, _)| *name);
            let advice = nearest(section, known).map_or_else(
                || {
                    format!(
                        "the sections are {}",
                        SECTIONS.map(|(name, _)| format!("[{name}]")).join(", ")
                    )
                },
                |near| format!("did you mean [{near}]?"),
            );
            return self.fault(
                lines.origin(line),
                format!("unknown section [{}]", plain(section)),
                advice,
            );
        }
        for (key, value) in entries {
            let line = lines.number(key.span().start);
            if broken.contains(&line) {
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
            let shown = format!("{} {}", article(value.type_str()), value.type_str());
            self.refuse(row, &shown, Invalid::NotASwitch, origin);
        }
    }

    fn unknown_at_top(&mut self, key: &str, origin: Origin) {
        let problem = format!("{} stands in no section", plain(key));
        let known = DIRECTIVES.iter().find(|row| row.key == key);
        let advice = known.map_or_else(
            || {
                "the sections are ".to_string()
                    + &SECTIONS.map(|(name, _)| format!("[{name}]")).join(", ")
            },
            |row| format!("write it below [{}]", row.section),
        );
        self.fault(origin, problem, advice);
    }

    fn unknown_key(&mut self, section: &str, key: &str, origin: Origin) {
        let problem = format!("unknown key [{section}] {}", plain(key));
        let here = DIRECTIVES.iter().filter(|row| row.section == section);
        let elsewhere = DIRECTIVES.iter().find(|row| row.key == key);
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

/// Where in a file something stands.
struct Lines<'a>(&'a ConfigFile);

impl Lines<'_> {
    /// The line of the byte at `offset`, counted from 1.
    fn number(&self, offset: usize) -> usize {
        let before = self.0.text.as_bytes().iter().take(offset);
        1 + before.filter(|byte| **byte == b'\n').count()
    }

    fn origin(&self, line: usize) -> Origin {
        Origin::File {
            name: self.0.name.clone(),
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
        Kind::Choice { .. } | Kind::Text { .. } | Kind::OutputLimits(_) => {
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
