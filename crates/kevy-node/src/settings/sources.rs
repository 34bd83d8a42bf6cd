//! From text to [`Settings`]: the file, then the environment, then the flags, each overriding what came before; then the
//! rules that bind several settings together. Faults are gathered on the way, never reported one by one.

use super::directive::{Directive, directives};
use super::fault::{Fault, Origin, nearest, plain, quoted};
use super::kind::Invalid;
use super::{MAX_SHARDS, Settings};
use std::collections::BTreeMap;

/// What the user wrote, as text.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The configuration file, if there is one.
    pub file: Option<ConfigFile>,
    /// The environment. Only names that start with `KEVY_` are looked at; an empty value counts as unset.
    pub environment: Vec<(String, String)>,
    /// Flags of the table with their values; see [`Directive::implied_value`] for those without.
    pub flags: Vec<(&'static str, String)>,
}

/// A configuration file that somebody else has read.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Its name, as messages show it.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Settings {
    /// The settings that `inputs` ask for on a machine with `usable_cores` cores.
    ///
    /// # Errors
    /// Every fault of the inputs: syntax, unknown names, impossible values, values that do not go together. A fault in a
    /// value that another source overrides is reported all the same.
    pub fn resolve(inputs: &Inputs, usable_cores: usize) -> Result<Self, Vec<Fault>> {
        let mut draft = Draft::default();
        if let Some(file) = &inputs.file {
            draft.read_file(file);
        }
        draft.read_environment(&inputs.environment);
        draft.read_flags(&inputs.flags);
        if draft.settings.server.threads == 0 {
            draft.settings.server.threads = usable_cores.clamp(1, usize::from(MAX_SHARDS)) as u16;
        }
        draft.check_together();
        if draft.faults.is_empty() {
            Ok(draft.settings)
        } else {
            Err(draft.faults)
        }
    }
}

/// Settings in the making.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) settings: Settings,
    pub(super) faults: Vec<Fault>,
    /// Who set a directive last, by its name.
    origins: BTreeMap<&'static str, Origin>,
    /// Directives with a fault of their own: what binds them to others is not judged.
    faulty: Vec<&'static str>,
}

impl Draft {
    /// Sets one directive, or notes why not.
    pub(super) fn set(&mut self, row: &'static Directive, text: &str, origin: Origin) {
        match row.kind.set(&mut self.settings, text) {
            Ok(()) => {
                self.origins.insert(row.name, origin);
            }
            Err(Invalid::Because(reason)) => {
                let reason = reason.trim_end_matches('.');
                self.refuse(row, &format!("{}: {reason}", quoted(text)), origin);
            }
            Err(
                Invalid::NotAnInteger
                | Invalid::NotMemory
                | Invalid::OutOfRange { .. }
                | Invalid::NotASwitch
                | Invalid::NotOneOf(_),
            ) => self.refuse(row, &quoted(text), origin),
        }
    }

    /// Notes that a directive cannot be what was `found`.
    pub(super) fn refuse(&mut self, row: &'static Directive, found: &str, origin: Origin) {
        self.faulty.push(row.name);
        let problem = format!("[{}] {} cannot be {found}", row.section, row.key);
        self.fault(origin, problem, format!("give {}", row.expects()));
    }

    pub(super) fn fault(&mut self, origin: Origin, problem: String, advice: impl Into<String>) {
        self.faults.push(Fault::new(origin, problem, advice));
    }

    /// Whether any of these directives has a fault of its own.
    pub(super) fn any_faulty(&self, names: &[&str]) -> bool {
        self.faulty.iter().any(|name| names.contains(name))
    }

    /// Where the first of these directives that somebody set was set.
    pub(super) fn origin_of(&self, names: &[&str]) -> Origin {
        let set = names.iter().find_map(|name| self.origins.get(name));
        set.cloned().unwrap_or(Origin::Default)
    }
}

impl Draft {
    fn read_environment(&mut self, environment: &[(String, String)]) {
        let ours = environment
            .iter()
            .filter(|(name, value)| name.starts_with("KEVY_") && !value.is_empty());
        for (name, value) in ours.filter(|(name, value)| !is_foreign(name, value)) {
            let origin = Origin::Environment(plain(name));
            match directives().find(|row| row.env == Some(name)) {
                Some(row) => self.set(row, value, origin),
                None => self.unknown_variable(name, origin),
            }
        }
    }

    fn unknown_variable(&mut self, name: &str, origin: Origin) {
        let suffix = |name: &'static str| name.trim_start_matches("KEVY_");
        let known = directives().filter_map(|row| row.env).map(suffix);
        let advice = nearest(name.trim_start_matches("KEVY_"), known).map_or_else(
            || "unset it; docs/CONFIGURATION.md lists the variables".into(),
            |near| format!("did you mean KEVY_{near}?"),
        );
        self.fault(origin, "unknown environment variable".into(), advice);
    }

    fn read_flags(&mut self, flags: &[(&'static str, String)]) {
        for (flag, value) in flags {
            let origin = Origin::Flag((*flag).into());
            match directives().find(|row| row.flag == Some(flag)) {
                Some(row) => self.set(row, value, origin),
                None => self.fault(origin, "unknown flag".into(), "kevy --help lists the flags"),
            }
        }
    }
}

/// Whether a variable that starts with `KEVY_` is none of the server's: `KEVY_CONFIG` is the binary's, `KEVY_BLESS` and
/// `KEVY_TEST_*` are the tests', and Kubernetes describes a service called `kevy` to every pod by `KEVY_SERVICE_HOST`,
/// `KEVY_PORT=tcp://10.0.0.1:6004`, `KEVY_PORT_6004_TCP` and the like.
fn is_foreign(name: &str, value: &str) -> bool {
    let starts = |prefix| name.starts_with(prefix);
    match name {
        "KEVY_CONFIG" | "KEVY_BLESS" => true,
        "KEVY_PORT" => value.contains("://"),
        _ if starts("KEVY_TEST_") || starts("KEVY_SERVICE_") => true,
        _ => name
            .strip_prefix("KEVY_PORT_")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())),
    }
}

#[cfg(test)]
mod tests;
