//! How the shared object is linked.

fn main() {
    // Generic code that comes out alike is kept once, where Rust links with LLVM's linker, which can do that. Nothing
    // compares functions by address.
    if std::env::var("TARGET").as_deref() == Ok("x86_64-unknown-linux-gnu") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--icf=all");
    }
}
