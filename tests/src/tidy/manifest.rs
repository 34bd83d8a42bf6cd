//! Rules on `Cargo.toml` files, which this repository writes one dependency a line.

use super::SourceFile;

/// One line of a dependency table.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The name of the package.
    pub name: String,
    /// Whether only tests, benchmarks and examples see it.
    pub for_tests: bool,
    /// Whether its version comes from the root manifest.
    pub from_workspace: bool,
    /// The line it is on, from 1.
    pub line: usize,
}

/// The dependencies of a package, of every kind.
pub fn dependencies(text: &str) -> Vec<Dependency> {
    let (mut found, mut section) = (Vec::new(), String::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[') {
            header.trim_end_matches(']').clone_into(&mut section);
            found.extend(table(&section, number + 1));
        } else if section.ends_with("dependencies") && line.contains('=') {
            found.push(dependency(&section, line, number + 1));
        }
    }
    found
}

fn dependency(section: &str, line: &str, number: usize) -> Dependency {
    let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
    let squeezed: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    Dependency {
        name: name.to_owned(),
        for_tests: section.starts_with("dev-"),
        from_workspace: squeezed.contains("workspace=true"),
        line: number,
    }
}

/// A dependency written as a table of its own, `[dependencies.name]`: never from the workspace here.
fn table(section: &str, number: usize) -> Option<Dependency> {
    let (kind, name) = section.rsplit_once("dependencies.")?;
    Some(Dependency {
        name: name.to_owned(),
        for_tests: kind.ends_with("dev-"),
        from_workspace: false,
        line: number,
    })
}

/// Versions in a member's manifest: every version stands once, in the root manifest.
pub fn own_versions(file: &SourceFile) -> Vec<String> {
    let dependencies = dependencies(&file.text);
    let own = dependencies.iter().filter(|d| !d.from_workspace);
    let mut places: Vec<_> = own
        .map(|d| {
            format!(
                "{}:{}: {} must say workspace = true",
                file.path, d.line, d.name
            )
        })
        .collect();
    let version = file.text.lines().position(|line| {
        let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        line.starts_with("version=")
    });
    places.extend(version.map(|at| {
        format!(
            "{}:{}: the version must come from the workspace",
            file.path,
            at + 1
        )
    }));
    places
}
