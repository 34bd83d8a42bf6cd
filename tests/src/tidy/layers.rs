//! Who may import whom, and who may know of sockets, files, clocks, threads and chance.

use super::source::{paths, without_tests};
use super::{SourceFile, manifest};

/// What one crate may know.
struct Layer {
    /// The name of the package.
    package: &'static str,
    /// Where it lies.
    directory: &'static str,
    /// Which packages of kevy it may import.
    may_import: &'static [&'static str],
    /// Which hosts' runtimes it may import.
    runtime: &'static [&'static str],
    /// Whether it is given bytes, messages and the time and never reaches for them.
    pure: bool,
    /// Whether it must do without the standard library.
    no_std: bool,
}

/// The table of docs/ARCHITECTURE.md. A crate that is not in it does not belong to kevy.
const LAYERS: &[Layer] = &[
    Layer {
        package: "kevy-proto",
        directory: "kevy-proto",
        may_import: &[],
        runtime: &[],
        pure: true,
        no_std: true,
    },
    Layer {
        package: "kevy-engine",
        directory: "crates/kevy-engine",
        may_import: &["kevy-proto"],
        runtime: &[],
        pure: true,
        no_std: true,
    },
    Layer {
        package: "kevy-elect",
        directory: "crates/kevy-elect",
        may_import: &["kevy-proto"],
        runtime: &[],
        pure: true,
        no_std: true,
    },
    Layer {
        package: "kevy-replicate",
        directory: "crates/kevy-replicate",
        may_import: &["kevy-proto"],
        runtime: &[],
        pure: true,
        no_std: false,
    },
    Layer {
        package: "kevy-node",
        directory: "crates/kevy-node",
        may_import: &["kevy-proto", "kevy-engine", "kevy-elect", "kevy-replicate"],
        runtime: &[],
        pure: true,
        no_std: false,
    },
    Layer {
        package: "kevy",
        directory: "kevy",
        may_import: &[
            "kevy-proto",
            "kevy-engine",
            "kevy-elect",
            "kevy-replicate",
            "kevy-node",
        ],
        runtime: &["glommio"],
        pure: false,
        no_std: false,
    },
    Layer {
        package: "kevy-sim",
        directory: "kevy-sim",
        may_import: &[
            "kevy-proto",
            "kevy-engine",
            "kevy-elect",
            "kevy-replicate",
            "kevy-node",
        ],
        runtime: &["tokio", "turmoil"],
        pure: false,
        no_std: false,
    },
    Layer {
        package: "kevy-client",
        directory: "crates/kevy-client",
        may_import: &["kevy-proto"],
        // Only for its feature `tokio`.
        runtime: &["tokio"],
        pure: false,
        no_std: false,
    },
    Layer {
        package: "kevy-embedded",
        directory: "crates/kevy-embedded",
        may_import: &["kevy-proto", "kevy-engine", "kevy-replicate", "kevy-node"],
        runtime: &[],
        pure: false,
        no_std: false,
    },
    Layer {
        package: "kevy-tests",
        directory: "tests",
        may_import: &["kevy-proto", "kevy-client"],
        runtime: &[],
        pure: false,
        no_std: false,
    },
    Layer {
        package: "kevy-benches",
        directory: "benches",
        may_import: &["kevy-proto", "kevy-engine", "kevy-client"],
        runtime: &[],
        pure: false,
        no_std: false,
    },
    // The fuzz targets drive the inner crates from outside the workspace.
    Layer {
        package: "kevy-fuzz",
        directory: "fuzz",
        may_import: &[
            "kevy-proto",
            "kevy-engine",
            "kevy-elect",
            "kevy-replicate",
            "kevy-node",
        ],
        runtime: &[],
        pure: false,
        no_std: false,
    },
];

/// Runtimes that only a host may know.
const RUNTIMES: &[&str] = &["glommio", "tokio", "turmoil"];

/// What a pure crate must be given instead of reaching for it: I/O, time, threads, and the random seed
/// of the standard hash tables (their order must not decide anything).
const IMPURE: &[&str] = &[
    "std::net",
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::os",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::collections::hash_map",
    "std::collections::hash_set",
    "std::hash::RandomState",
    "Instant::now",
    "SystemTime::now",
    "thread::spawn",
    "fastrand::rng",
    "rand::thread_rng",
];

/// The one file of a pure crate that may do I/O: a blocking client for other people's programs.
const IMPURE_FILES: &[&str] = &["crates/kevy-replicate/src/client.rs"];

/// What decides in a crate that otherwise does I/O: it must be given bytes and time, too.
const PURE_FILES: &[&str] = &[
    "crates/kevy-client/src/call.rs",
    "crates/kevy-client/src/cluster/backoff.rs",
    "crates/kevy-client/src/cluster/redirect.rs",
    "crates/kevy-client/src/cluster/router.rs",
    "crates/kevy-client/src/cluster/topology.rs",
    "crates/kevy-client/src/from_reply.rs",
    "crates/kevy-client/src/protocol.rs",
    "crates/kevy-client/src/subscription.rs",
];

fn layer_of(path: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| {
        let inside = path.strip_prefix(layer.directory);
        inside.is_some_and(|rest| rest.starts_with('/'))
    })
}

/// Dependencies that the table forbids, and packages that it does not know.
pub fn forbidden_dependencies(file: &SourceFile) -> Vec<String> {
    let Some(layer) = layer_of(&file.path) else {
        return vec![format!(
            "{}: a package outside the table of layers",
            file.path
        )];
    };
    let dependencies = manifest::dependencies(&file.text);
    let forbidden = dependencies
        .iter()
        .filter(|dependency| !dependency.for_tests && !may_know(layer, &dependency.name));
    forbidden
        .map(|d| {
            format!(
                "{}:{}: {} may not depend on {}",
                file.path, d.line, layer.package, d.name
            )
        })
        .collect()
}

/// Imports that the table forbids, wherever the package came from.
pub fn forbidden_imports(file: &SourceFile) -> Vec<String> {
    let Some(layer) = layer_of(&file.path) else {
        return vec![format!(
            "{}: a source outside the table of layers",
            file.path
        )];
    };
    let named = paths(without_tests(&file.text)).into_iter();
    let forbidden = named.filter(|(_, path)| {
        let package = path
            .split("::")
            .next()
            .unwrap_or_default()
            .replace('_', "-");
        !is_test_source(&file.path) && package != layer.package && !may_know(layer, &package)
    });
    forbidden
        .map(|(line, path)| {
            format!(
                "{}:{line}: {} may not import {path}",
                file.path, layer.package
            )
        })
        .collect()
}

fn may_know(layer: &Layer, package: &str) -> bool {
    let ours = package == "kevy" || LAYERS.iter().any(|other| other.package == package);
    if ours {
        layer.may_import.contains(&package)
    } else {
        !RUNTIMES.contains(&package) || layer.runtime.contains(&package)
    }
}

/// Sockets, files, clocks, threads and chance in a crate that must be given them.
pub fn impurities(file: &SourceFile) -> Vec<String> {
    let pure = PURE_FILES.contains(&file.path.as_str())
        || layer_of(&file.path).is_some_and(|layer| layer.pure);
    if !pure || IMPURE_FILES.contains(&file.path.as_str()) || is_test_source(&file.path) {
        return Vec::new();
    }
    let named = paths(without_tests(&file.text)).into_iter();
    let forbidden = named.filter(|(_, path)| IMPURE.iter().any(|impure| mentions(path, impure)));
    forbidden
        .map(|(line, path)| format!("{}:{line}: a pure crate may not use {path}", file.path))
        .collect()
}

/// Whether `path` is `item` or something in it, or imports everything around it.
fn mentions(path: &str, item: &str) -> bool {
    let parts = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
    let (path, item) = (parts(path), parts(item));
    let everything = path.last().is_some_and(|last| last == "*");
    let around = everything && item.starts_with(&path[..path.len() - 1]);
    around || path.windows(item.len()).any(|window| window == item)
}

/// What the root of a crate must begin with and does not.
pub fn missing_headers(file: &SourceFile) -> Vec<String> {
    let Some(layer) = layer_of(&file.path) else {
        return Vec::new();
    };
    let root = file.path.strip_prefix(layer.directory).unwrap_or_default();
    if root != "/src/lib.rs" && root != "/src/main.rs" {
        return Vec::new();
    }
    let no_std = layer.no_std.then_some("#![no_std]");
    let headers = no_std.into_iter().chain(["#![forbid(unsafe_code)]"]);
    headers
        .filter(|header| !file.text.lines().any(|line| line.trim() == *header))
        .map(|header| format!("{}: {header} is missing", file.path))
        .collect()
}

fn is_test_source(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
}
