//! The messages of a client, once it has said who it is.

use bytes::{Buf, Bytes};

/// What a message is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    Query,
    Parse,
    Bind,
    Describe,
    Execute,
    Close,
    Flush,
    Sync,
    CopyData,
    CopyDone,
    CopyFail,
    Password,
    Terminate,
}

impl RequestKind {
    /// The kind of messages that begin with this byte; `None` where there are none.
    pub fn of(first: u8) -> Option<Self> {
        Some(match first {
            b'Q' => Self::Query,
            b'P' => Self::Parse,
            b'B' => Self::Bind,
            b'D' => Self::Describe,
            b'E' => Self::Execute,
            b'C' => Self::Close,
            b'H' => Self::Flush,
            b'S' => Self::Sync,
            b'd' => Self::CopyData,
            b'c' => Self::CopyDone,
            b'f' => Self::CopyFail,
            b'p' => Self::Password,
            b'X' => Self::Terminate,
            _ => return None,
        })
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A script of statements.
    Query(String),
    /// A statement to prepare.
    Parse(Parse),
    /// Values for the parameters of a prepared statement.
    Bind(Bind),
    /// What a statement or portal is like.
    Describe(Target),
    /// Rows of a portal.
    Execute {
        /// The portal.
        portal: String,
        /// The most rows to send; 0 for all.
        rows_max: usize,
    },
    /// Forgets a statement or portal.
    Close(Target),
    /// Sends what is ready.
    Flush,
    /// Ends a series of messages.
    Sync,
    /// Rows of a `COPY … FROM STDIN`.
    CopyData(Bytes),
    /// The end of these.
    CopyDone,
    /// The end of these, because the client gives up.
    CopyFail(String),
    /// A password, or a message of SASL.
    Password(Bytes),
    /// The end of the connection.
    Terminate,
}

/// A statement to prepare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parse {
    /// Its name, which may be empty.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// The identifiers of the types of its parameters; 0 for those that it tells itself.
    pub types: Vec<u32>,
}

/// Values for a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The portal to make.
    pub portal: String,
    /// The statement.
    pub statement: String,
    /// How the values are written: none for text, one for all, or one each.
    pub value_formats: Vec<i16>,
    /// The values; none for null.
    pub values: Vec<Option<Bytes>>,
    /// How the columns of rows are to be written.
    pub column_formats: Vec<i16>,
}

/// A statement or a portal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement, by name.
    Statement(String),
    /// A portal, by name.
    Portal(String),
}

/// A message that can't be read; what it should have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unnamed(pub &'static str);

impl Request {
    /// Whether errors of it are followed by silence until the next [`Self::Sync`].
    pub fn is_extended(&self) -> bool {
        matches!(
            self,
            Self::Parse(_)
                | Self::Bind(_)
                | Self::Describe(_)
                | Self::Execute { .. }
                | Self::Close(_)
                | Self::Flush
        )
    }

    /// Reads the body of a message, all of it.
    ///
    /// # Errors
    /// A body that is too short or too long for its message, or holds what it can't.
    pub fn read(kind: RequestKind, body: Bytes) -> Result<Self, Unnamed> {
        let mut body = Body::new(body);
        let request = match kind {
            RequestKind::Query => Self::Query(body.text()?),
            RequestKind::Parse => Self::Parse(body.parse()?),
            RequestKind::Bind => Self::Bind(body.bind()?),
            RequestKind::Describe => Self::Describe(body.target()?),
            RequestKind::Close => Self::Close(body.target()?),
            RequestKind::Execute => Self::Execute {
                portal: body.text()?,
                // Less than none means all, as in PostgreSQL.
                rows_max: usize::try_from(body.i32()?).unwrap_or(0),
            },
            RequestKind::Flush => Self::Flush,
            RequestKind::Sync => Self::Sync,
            RequestKind::CopyData => Self::CopyData(body.rest()),
            RequestKind::CopyDone => Self::CopyDone,
            RequestKind::CopyFail => Self::CopyFail(body.text()?),
            RequestKind::Password => Self::Password(body.rest()),
            RequestKind::Terminate => Self::Terminate,
        };
        match body.is_empty() {
            true => Ok(request),
            false => Err(Unnamed("a message without bytes behind its end")),
        }
    }
}

/// The first message of SASL: the mechanism, and the bytes for it.
///
/// # Errors
/// A body that is none.
pub fn initial_response(body: Bytes) -> Result<(String, Bytes), Unnamed> {
    let mut body = Body::new(body);
    let mechanism = body.text()?;
    let length = usize::try_from(body.i32()?).map_err(|_| Unnamed("a response"))?;
    let response = body.take(length)?;
    match body.is_empty() {
        true => Ok((mechanism, response)),
        false => Err(Unnamed("a response that ends with its message")),
    }
}

/// The body of a message, read from its begin.
pub struct Body {
    bytes: Bytes,
    /// Where what was not read begins.
    at: usize,
}

impl Body {
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    /// Whether all of it was read.
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next bytes.
    fn slice(&mut self, count: usize) -> Result<&[u8], Unnamed> {
        let slice = self.bytes.get(self.at..).and_then(|left| left.get(..count));
        let slice = slice.ok_or(Unnamed("a message that is as long as what is in it"))?;
        self.at += count;
        Ok(slice)
    }

    /// The same, to be kept.
    pub fn take(&mut self, count: usize) -> Result<Bytes, Unnamed> {
        let at = self.at;
        self.slice(count)?;
        Ok(self.bytes.slice(at..at + count))
    }

    fn u16(&mut self) -> Result<u16, Unnamed> {
        Ok(self.slice(2)?.get_u16())
    }

    pub fn i32(&mut self) -> Result<i32, Unnamed> {
        Ok(self.slice(4)?.get_i32())
    }

    /// A text that ends with a zero byte.
    pub fn text(&mut self) -> Result<String, Unnamed> {
        let left = &self.bytes[self.at..];
        let end = left.iter().position(|byte| *byte == 0);
        let text = &left[..end.ok_or(Unnamed("a text that ends"))?];
        let text = std::str::from_utf8(text).map_err(|_| Unnamed("text in UTF-8"))?;
        self.at += text.len() + 1;
        Ok(text.to_owned())
    }

    /// All that was not read.
    pub fn rest(&mut self) -> Bytes {
        let rest = self.bytes.slice(self.at..);
        self.at = self.bytes.len();
        rest
    }

    /// A count and as many things.
    fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, Unnamed>,
    ) -> Result<Vec<T>, Unnamed> {
        (0..self.u16()?).map(|_| one(self)).collect()
    }

    fn format(&mut self) -> Result<i16, Unnamed> {
        match self.u16()? {
            format @ (0 | 1) => Ok(format as i16),
            _ => Err(Unnamed("format 0 for text or 1 for binary")),
        }
    }

    fn value(&mut self) -> Result<Option<Bytes>, Unnamed> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Unnamed("a length"))?;
                self.take(length).map(Some)
            }
        }
    }

    fn parse(&mut self) -> Result<Parse, Unnamed> {
        Ok(Parse {
            name: self.text()?,
            sql: self.text()?,
            types: self.list(|body| Ok(body.i32()? as u32))?,
        })
    }

    fn bind(&mut self) -> Result<Bind, Unnamed> {
        Ok(Bind {
            portal: self.text()?,
            statement: self.text()?,
            value_formats: self.list(Self::format)?,
            values: self.list(Self::value)?,
            column_formats: self.list(Self::format)?,
        })
    }

    fn target(&mut self) -> Result<Target, Unnamed> {
        match self.slice(1)?[0] {
            b'S' => self.text().map(Target::Statement),
            b'P' => self.text().map(Target::Portal),
            _ => Err(Unnamed("S for a statement or P for a portal")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A bind with two values, one of them null.
    const BIND: &[u8] = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0";

    #[test]
    fn messages_are_read_whole() {
        let bind = Request::read(RequestKind::Bind, Bytes::from_static(BIND)).expect("a bind");
        let expected = Bind {
            portal: "p".to_owned(),
            statement: "s".to_owned(),
            value_formats: vec![1],
            values: vec![Some(Bytes::from_static(b"x")), None],
            column_formats: Vec::new(),
        };
        assert_eq!(bind, Request::Bind(expected));
        let query = Request::read(RequestKind::Query, Bytes::from_static(b"SELECT 1\0"));
        assert_eq!(query, Ok(Request::Query("SELECT 1".to_owned())));
    }

    #[test]
    fn cut_and_extended_messages_are_refused() {
        for length in 0..BIND.len() {
            let cut = Bytes::copy_from_slice(&BIND[..length]);
            assert!(Request::read(RequestKind::Bind, cut).is_err(), "{length}");
        }
        let extended = Bytes::from([BIND, b"x"].concat());
        assert!(Request::read(RequestKind::Bind, extended).is_err());
        let invalid = Bytes::from_static(b"\xff\xfe\0");
        assert_eq!(
            Request::read(RequestKind::Query, invalid),
            Err(Unnamed("text in UTF-8"))
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(first: u8, body in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(kind) = RequestKind::of(first) {
                let _ = Request::read(kind, Bytes::from(body.clone()));
            }
            let _ = initial_response(Bytes::from(body));
        }
    }
}
