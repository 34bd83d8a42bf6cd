//! The rules of the repository (`kevy_tests::tidy`): each shown to bite, then held against every file.
#![forbid(unsafe_code)]

use std::path::Path;

use kevy_tests::binary::repository;
use kevy_tests::tidy::text::{LONG_LINES, LONGEST_LINES, LongFile};
use kevy_tests::tidy::{SourceFile, layers, manifest, text, tracked_files};

/// Source files above 500 lines without tests. This list only shrinks.
const LONG_FILES: &[LongFile] = &[
    ("crates/kevy-engine/src/value/sorted_set/ranking.rs", 540),
    ("crates/kevy-node/src/commands/cluster.rs", 520),
    ("crates/kevy-node/src/shard.rs", 650),
];

/// What every repository of ours has.
const REQUIRED: &[&str] = &["CHANGELOG.md", "CONTRIBUTING.md", "README.md", ".ci/run"];

fn is_source(file: &SourceFile) -> bool {
    Path::new(&file.path)
        .extension()
        .is_some_and(|extension| extension == "rs")
}

fn is_member_manifest(file: &SourceFile) -> bool {
    file.path.ends_with("/Cargo.toml")
}

/// The fuzz targets are not in the workspace: nightly builds them, with versions of their own.
fn in_workspace(file: &SourceFile) -> bool {
    !file.path.starts_with("fuzz/")
}

fn hold(rule: impl Fn(&SourceFile) -> Vec<String>, concerns: impl Fn(&SourceFile) -> bool) {
    let files = tracked_files(repository());
    let files: Vec<_> = files.into_iter().filter(concerns).collect();
    assert!(!files.is_empty(), "a rule that no file is held against");
    let broken: Vec<_> = files.iter().flat_map(rule).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn dependencies_follow_the_layers() {
    hold(layers::forbidden_dependencies, is_member_manifest);
}

#[test]
fn imports_follow_the_layers() {
    hold(layers::forbidden_imports, is_source);
}

#[test]
fn pure_crates_are_pure() {
    hold(layers::impurities, is_source);
}

#[test]
fn crate_roots_forbid_what_they_must() {
    hold(layers::missing_headers, |file| {
        is_source(file) && in_workspace(file)
    });
}

#[test]
fn every_version_stands_once() {
    hold(manifest::own_versions, |file| {
        is_member_manifest(file) && in_workspace(file)
    });
}

#[test]
fn files_are_short() {
    hold(|file| text::too_long(file, LONG_FILES), is_source);
    let files = tracked_files(repository());
    let gone = LONG_FILES
        .iter()
        .filter(|(path, _)| files.iter().all(|file| file.path != *path));
    assert_eq!(gone.count(), 0, "a listed file is gone");
}

#[test]
fn names_say_something() {
    hold(text::empty_names, is_source);
}

#[test]
fn nothing_depends_on_one_machine() {
    hold(text::machine_paths, |_| true);
}

#[test]
fn unsafe_code_says_why_it_is_sound() {
    hold(text::unsafe_without_reason, is_source);
}

#[test]
fn required_files_are_there() {
    let files = tracked_files(repository());
    for path in REQUIRED {
        assert!(
            files.iter().any(|file| file.path == *path),
            "{path} is missing"
        );
    }
}

/// Each rule sees what it is there for, and lets the nearest innocent text pass.
mod bites {
    use super::*;

    fn file(path: &str, text: impl Into<String>) -> SourceFile {
        SourceFile {
            path: path.to_owned(),
            text: text.into(),
        }
    }

    fn check(rule: fn(&SourceFile) -> Vec<String>, path: &str, guilty: &[&str], innocent: &[&str]) {
        for text in guilty {
            assert!(
                !rule(&file(path, *text)).is_empty(),
                "{path} may not hold {text}"
            );
        }
        for text in innocent {
            assert_eq!(rule(&file(path, *text)), [""; 0], "{path} may hold {text}");
        }
    }

    #[test]
    fn dependencies() {
        let rule = layers::forbidden_dependencies;
        check(
            rule,
            "crates/kevy-engine/Cargo.toml",
            &[
                "[dependencies]\nkevy-node.workspace = true\n",
                "[dependencies]\nglommio.workspace = true\n",
                "[target.'cfg(unix)'.dependencies]\ntokio = { workspace = true }\n",
                "[dependencies.turmoil]\nworkspace = true\n",
            ],
            &[
                "[dependencies]\nkevy-proto.workspace = true\n\n[dev-dependencies]\ntokio.workspace = true\n",
            ],
        );
        check(
            rule,
            "kevy/Cargo.toml",
            &["[dependencies]\ntokio.workspace = true"],
            &["[dependencies]\nglommio.workspace = true"],
        );
        check(
            rule,
            "kevy-sim/Cargo.toml",
            &["[dependencies]\nkevy = { workspace = true }"],
            &["[dependencies]\nturmoil.workspace = true"],
        );
        for (one, other) in [
            ("kevy-elect", "kevy-replicate"),
            ("kevy-replicate", "kevy-elect"),
        ] {
            let text = format!("[dependencies]\n{other}.workspace = true\n");
            check(rule, &format!("crates/{one}/Cargo.toml"), &[&text], &[]);
        }
        check(rule, "crates/kevy-new/Cargo.toml", &[""], &[]);
    }

    #[test]
    fn imports() {
        let rule = layers::forbidden_imports;
        check(
            rule,
            "crates/kevy-node/src/lib.rs",
            &[
                "use glommio::LocalExecutor;",
                "fn f() { tokio::spawn(x) }",
                "use kevy_sim::swarm;",
            ],
            &[
                "use kevy_engine::{Keyspace, Value};",
                "// glommio::x",
                "#[cfg(test)]\nmod tests {\nuse tokio::x;\n}",
            ],
        );
        check(
            rule,
            "crates/kevy-elect/src/lib.rs",
            &["use kevy_replicate::source::Source;"],
            &["use kevy_proto::ids;"],
        );
        check(
            rule,
            "crates/kevy-replicate/src/a.rs",
            &["use {kevy_elect::Elector};"],
            &["use kevy_replicate::a;"],
        );
        check(
            rule,
            "kevy/src/main.rs",
            &["use turmoil::Sim;"],
            &["use glommio::{net, timer};"],
        );
    }

    #[test]
    fn purity() {
        check(
            layers::impurities,
            "crates/kevy-node/src/a.rs",
            &[
                "use std::net::TcpStream;",
                "use std::{fmt, fs};",
                "use std::time::{Duration, Instant};",
                "let t = SystemTime::now();",
                "std::thread::spawn(f);",
                "use std::collections::HashMap;",
                "use std::collections::{BTreeMap, HashSet};",
                "use std::*;",
            ],
            &[
                "use core::time::Duration;",
                "use std::collections::BTreeMap;",
                "use hashbrown::HashMap;",
                "/// unlike std::fs\nfn f() {}",
                "#[cfg(test)]\nmod tests {\n    use std::collections::HashMap;\n}",
            ],
        );
        check(
            layers::impurities,
            "crates/kevy-replicate/src/client.rs",
            &[],
            &["use std::net::TcpStream;"],
        );
        check(
            layers::impurities,
            "crates/kevy-client/src/protocol.rs",
            &["use std::net::TcpStream;", "thread::spawn(f);"],
            &["use std::time::Duration;"],
        );
        check(
            layers::impurities,
            "kevy/src/a.rs",
            &[],
            &["use std::net::TcpStream;"],
        );
    }

    #[test]
    fn headers() {
        let both = "//! Story.\n#![no_std]\n#![forbid(unsafe_code)]\n";
        check(
            layers::missing_headers,
            "kevy-proto/src/lib.rs",
            &["#![no_std]", "#![forbid(unsafe_code)]", "// #![no_std]\n"],
            &[both],
        );
        check(
            layers::missing_headers,
            "kevy-sim/src/lib.rs",
            &[""],
            &["#![forbid(unsafe_code)]"],
        );
        check(layers::missing_headers, "kevy-sim/src/a.rs", &[], &[""]);
    }

    #[test]
    fn versions() {
        check(
            manifest::own_versions,
            "kevy/Cargo.toml",
            &[
                "[dependencies]\nbytes = \"1\"\n",
                "[dev-dependencies]\nbytes = { version = \"1\", features = [\"std\"] }\n",
                "[dependencies.bytes]\nversion = \"1\"\n",
                "[package]\nversion = \"0.1.0\"\n",
            ],
            &[
                "[package]\nversion.workspace = true\n[dependencies]\nbytes.workspace = true\nmio = { workspace = true, features = [\"net\"] }\n",
            ],
        );
    }

    #[test]
    fn length() {
        let of = |lines: usize| file("a.rs", "x\n".repeat(lines));
        let judge = |lines, listed: &[LongFile]| text::too_long(&of(lines), listed).is_empty();
        assert!(judge(LONG_LINES, &[]) && !judge(LONG_LINES + 1, &[]));
        assert!(judge(700, &[("a.rs", 700)]));
        assert!(!judge(701, &[("a.rs", 700)]), "it has grown");
        assert!(!judge(600, &[("a.rs", 700)]), "the list is out of date");
        assert!(
            !judge(LONG_LINES, &[("a.rs", 510)]),
            "it need not be listed"
        );
        assert!(!judge(LONGEST_LINES, &[("a.rs", LONGEST_LINES)]));
        let with_tests = format!("x\n#[cfg(test)]\nmod tests {{\n{}", "x\n".repeat(2_000));
        assert!(text::too_long(&file("a.rs", with_tests), &[]).is_empty());
    }

    #[test]
    fn names() {
        check(
            text::empty_names,
            "a/src/lib.rs",
            &[
                "mod util;",
                "pub mod string_helpers {",
                "pub(crate) mod common;",
            ],
            &["mod commons;", "// mod util;"],
        );
        for path in [
            "a/src/utils.rs",
            "a/common/mod.rs",
            "a/src/manager.rs",
            "a/src/key-helper.rs",
        ] {
            check(text::empty_names, path, &[""], &[]);
        }
    }

    #[test]
    fn paths() {
        let guilty = ["work", "root", "home"].map(|directory| format!("cd \"/{directory}/me\""));
        for text in &guilty {
            check(
                text::machine_paths,
                "a.md",
                &[text],
                &["docs/home/x", "https://x.example/work", "~/x"],
            );
        }
    }

    #[test]
    fn reasons() {
        check(
            text::unsafe_without_reason,
            "kevy/src/ring.rs",
            &[
                "fn f() {\n    unsafe { g() }\n}",
                "unsafe impl Send for A {}",
            ],
            &[
                "// SAFETY: g has no conditions.\nunsafe { g() }",
                "#![forbid(unsafe_code)]",
                "// unsafe",
            ],
        );
    }
}
