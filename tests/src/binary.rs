//! Where the `kevy` binary under test is: beside the test's own executable, built on first use.
//!
//! `cargo test` builds the binary of a package only for that package's own integration tests, so the
//! harness runs `cargo build -p kevy` itself, once in each test process. Cargo's lock on the build directory
//! makes that safe when several processes do it at once, and it is quick when nothing changed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of the `kevy` binary: `KEVY_TEST_BINARY` if set, else the one of this test's own profile.
///
/// # Panics
/// When the binary cannot be built; the message holds the compiler's words.
pub fn kevy() -> &'static Path {
    // A failure is kept, too: the next test would only build and fail again.
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = BINARY.get_or_init(|| match std::env::var_os("KEVY_TEST_BINARY") {
        Some(path) => Ok(PathBuf::from(path)),
        None => build(),
    });
    match found {
        Ok(path) => path,
        Err(reason) => panic!("{reason}"),
    }
}

/// The directory of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests package lies in the repository")
}

fn build() -> Result<PathBuf, String> {
    let profile_dir = profile_directory();
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let target_dir = profile_dir
        .parent()
        .expect("a profile directory lies in a target directory");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--locked",
            "-p",
            "kevy",
            "--profile",
            profile,
        ])
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(repository())
        .output();
    let binary = profile_dir.join("kevy");
    match built {
        Ok(output) if output.status.success() && binary.is_file() => Ok(binary),
        Ok(output) => Err(format!(
            "no kevy binary at {}: run `cargo build -p kevy` first\n{}",
            binary.display(),
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => Err(format!(
            "cannot run cargo ({error}): run `cargo build -p kevy` first"
        )),
    }
}

/// `target/<profile>`, from `target/<profile>/deps/<test>`.
fn profile_directory() -> PathBuf {
    let executable = std::env::current_exe().expect("a test knows its own path");
    executable
        .ancestors()
        .find(|path| path.ends_with("deps"))
        .and_then(Path::parent)
        .expect("a test executable lies in target/<profile>/deps")
        .to_path_buf()
}
