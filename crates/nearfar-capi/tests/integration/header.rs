//! The header that is checked in is the one that cbindgen makes of the crate.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("settings");
    let made = cbindgen::Builder::new()
        .with_src(root.join("src/lib.rs"))
        .with_config(config)
        .generate()
        .expect("a header");
    let mut text = Vec::new();
    made.write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    let path = root.join("include/nearfar.h");
    if std::env::var_os("NEARFAR_BLESS").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let kept = std::fs::read_to_string(&path).expect("the header");
    assert_eq!(kept, text, "run NEARFAR_BLESS=1 cargo test -p nearfar-capi");
}
