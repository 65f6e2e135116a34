//! Bytes of PostgreSQL's protocol: what clients send is read here with every length checked, since the
//! protocol's crate trusts the lengths within a message; what is sent is the crate's.

mod reader;
mod request;
mod startup;
mod writer;

pub use reader::{ReadError, Reader};
pub use request::{Bind, Parse, Request, RequestKind, Target, initial_response};
pub use startup::{Cancel, Opening, Startup, StartupError, negotiate};
pub use writer::Writer;
