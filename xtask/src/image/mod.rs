//! The guest's image: a kernel, a small initial file system and a tree of Debian's programs, beside
//! the qemu that runs them.
//!
//! All of it comes from Debian's packages, is unpacked into the cache, and is found again by a key
//! over everything that it is made from. Nothing is installed on the host.

mod apt;
mod assemble;
mod cache;
mod cpio;
mod kernel;
mod modules;
mod recipe;
mod tools;

pub use cache::Image;
