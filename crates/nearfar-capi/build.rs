//! Names the shared library, so that programs find the version that they were built with.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnearfar.so.0");
}
