//! `CONFIG REWRITE`: the settings in force, written into the configuration file that is there. Comments, order and what
//! says the same already stay as they are.

use super::directive::{Directive, directives};
use super::{ConfigFile, Inputs, Settings};
use toml_edit::{DocumentMut, Item, Table, Value};

/// The text of a configuration file, changed so that it gives `settings`.
///
/// Only what the file would give otherwise is written: a value that is the same in another notation stays, and so does a
/// missing one that is the default. `threads = 0` stays, since it gives what the machine has.
///
/// # Errors
/// If the text is no configuration file any more, or the new one would not give the settings.
pub fn rewritten(text: &str, settings: &Settings) -> Result<String, String> {
    let before = resolved(text, settings)?;
    let mut document: DocumentMut = text.parse().map_err(|_| "not TOML".to_owned())?;
    for row in directives() {
        let value = row.kind.toml_text(settings);
        if value != row.kind.toml_text(&before) {
            put(&mut document, row, value)?;
        }
    }
    let text = document.to_string();
    if resolved(&text, settings)? == *settings {
        Ok(text)
    } else {
        Err("the settings do not survive being written".to_owned())
    }
}

/// What a file gives, on this machine.
fn resolved(text: &str, settings: &Settings) -> Result<Settings, String> {
    let inputs = Inputs {
        file: Some(ConfigFile {
            name: "line".to_owned(),
            text: text.to_owned(),
        }),
        ..Inputs::default()
    };
    Settings::resolve(&inputs, usize::from(settings.server.threads))
        .map_err(|faults| faults.first().map(ToString::to_string).unwrap_or_default())
}

/// Writes one value, or takes it out; what stands around it stays.
fn put(document: &mut DocumentMut, row: &Directive, value: Option<String>) -> Result<(), String> {
    let section = document
        .entry(row.section)
        .or_insert(Item::Table(Table::new()))
        .as_table_like_mut()
        .ok_or_else(|| format!("{} is no section", row.section))?;
    let Some(literal) = value else {
        section.remove(row.key);
        return Ok(());
    };
    let mut value: Value = literal
        .parse()
        .map_err(|_| format!("{literal} is no TOML value"))?;
    match section.get_mut(row.key).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => {
            section.insert(row.key, Item::Value(value));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::*;

    /// A value that the row does not have by default.
    fn other_value(row: &Directive) -> String {
        match &row.kind {
            Kind::Integer { min, .. } => {
                let default: i64 = row.default_toml().map_or(0, |text| text.parse().unwrap());
                let other = if default == *min { min + 1 } else { *min };
                other.to_string()
            }
            Kind::Memory { max, .. } => max.to_string(),
            Kind::Mode(_) => "750".into(),
            Kind::Switch(_) => (row.default_toml().as_deref() != Some("true")).to_string(),
            Kind::Choice { names, .. } => {
                let is_default = |name: &&&str| row.default_toml() == Some(format!("\"{name}\""));
                (*names.iter().find(|name| !is_default(name)).unwrap()).into()
            }
            Kind::Addresses(_) => "::1".into(),
            Kind::Text { .. } => "else \"where\"".into(),
            Kind::OutputLimits(_) => "normal 1 2 3".into(),
            Kind::Notation { .. } if row.name == "notify-keyspace-events" => "KEl".into(),
            Kind::Notation { .. } => "10 20 30 40".into(),
        }
    }

    fn base() -> Settings {
        let mut settings = Settings::default();
        settings.server.threads = 4;
        settings
    }

    #[test]
    fn every_directive_can_be_read_again() {
        let mut all = base();
        for row in directives() {
            // Some values are refused together with others, or in this version.
            if matches!(row.name, "appendonly" | "threads") {
                continue;
            }
            let mut settings = base();
            row.kind.set(&mut settings, &other_value(row)).unwrap();
            let text = rewritten("", &settings).unwrap_or_else(|e| panic!("{}: {e}", row.name));
            assert!(text.contains(row.key), "{text}");
            assert_eq!(resolved(&text, &settings).unwrap(), settings, "{text}");
            row.kind.set(&mut all, &other_value(row)).unwrap();
        }
        all.cluster.enabled = false;
        let text = rewritten("", &all).unwrap();
        assert_eq!(resolved(&text, &all).unwrap(), all, "{text}");
        assert_eq!(
            rewritten(&text, &base()).map(|t| resolved(&t, &base())),
            Ok(Ok(base()))
        );
    }

    #[test]
    fn comments_order_and_notation_stay() {
        let before = "# mine\n[monitoring]\nslowlog_max_len = 5 # few\n\n[server]\n# much\nmaxmemory = \"1024mb\"\nhz = 20\n";
        let mut settings = base();
        settings.server.maxmemory = 1 << 30;
        settings.server.hz = 30;
        settings.server.timeout = 9;
        settings.monitoring.slowlog_max_len = 6;
        settings.encoding.limits.hash_max_listpack_entries = 7;
        assert_eq!(
            rewritten(before, &settings).unwrap(),
            "# mine\n[monitoring]\nslowlog_max_len = 6 # few\n\n[server]\n# much\nmaxmemory = \"1024mb\"\nhz = 30\ntimeout = 9\n\n\
             [encoding]\nhash_max_listpack_entries = 7\n"
        );
        assert_eq!(
            rewritten(before, &resolved(before, &base()).unwrap()).unwrap(),
            before
        );
        let inline = "server = { hz = 20 }";
        settings = base();
        settings.server.hz = 30;
        assert_eq!(
            rewritten(inline, &settings).unwrap().trim_end(),
            "server = { hz = 30 }"
        );
    }

    #[test]
    fn a_file_that_is_broken_by_now_is_left_alone() {
        assert!(rewritten("[server\n", &base()).is_err());
        assert!(rewritten("[server]\nprot = 1\n", &base()).is_err());
    }
}
