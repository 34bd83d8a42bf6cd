//! docs/CONFIGURATION.md and kevy.toml.example are what the table of directives says. `KEVY_BLESS=1` rewrites them.

use kevy_node::settings::document;
use std::path::Path;

fn assert_generated(name: &str, rendered: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    if std::env::var_os("KEVY_BLESS").is_some() {
        std::fs::write(&path, rendered).expect("the checkout can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == rendered,
        "{name} is not what the table of directives says: run KEVY_BLESS=1 cargo test -p kevy --test configuration_documents"
    );
}

#[test]
fn configuration_md_is_generated() {
    assert_generated("docs/CONFIGURATION.md", &document::configuration_markdown());
}

#[test]
fn the_example_is_generated() {
    assert_generated("kevy.toml.example", &document::example_toml());
}
