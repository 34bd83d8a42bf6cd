//! docs/COMMANDS.md is what the rows of the commands and docs/COMPATIBILITY.md say. `KEVY_BLESS=1` rewrites it.

use kevy_node::commands::document;
use std::path::Path;

#[test]
fn commands_md_is_generated() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let read = |name| std::fs::read_to_string(docs.join(name)).unwrap_or_default();
    let rendered = document::commands_markdown(&read("COMPATIBILITY.md"));
    if std::env::var_os("KEVY_BLESS").is_some() {
        std::fs::write(docs.join("COMMANDS.md"), &rendered).expect("the checkout can be written");
    }
    assert!(
        read("COMMANDS.md") == rendered,
        "docs/COMMANDS.md is not what the rows say: run KEVY_BLESS=1 cargo test -p kevy --test command_documents"
    );
}
