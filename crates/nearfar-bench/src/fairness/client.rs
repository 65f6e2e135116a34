//! As much of a client as runs statements and waits for their end.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::error::FairnessError;

/// Version 3.0 of the protocol.
const VERSION: [u8; 4] = [0, 3, 0, 0];
/// An error, and the end of an answer.
const ERROR: u8 = b'E';
const READY: u8 = b'Z';
/// The field of an error that has the SQLSTATE.
const CODE: u8 = b'C';

/// A connection.
pub struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Client {
    /// Connects to a server without users.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let writer = TcpStream::connect(address)?;
        writer.set_nodelay(true)?;
        let mut client = Self {
            reader: BufReader::new(writer.try_clone()?),
            writer,
        };
        let body = [&VERSION[..], b"user\0bench\0\0"].concat();
        client.writer.write_all(&framed(None, &body))?;
        client.answer()?;
        Ok(client)
    }

    /// Runs a statement to its end. The SQLSTATE of its error, if it had one.
    pub fn run(&mut self, sql: &str) -> io::Result<Option<String>> {
        let body = [sql.as_bytes(), b"\0"].concat();
        self.writer.write_all(&framed(Some(b'Q'), &body))?;
        self.answer()
    }

    /// Runs a statement that must not fail.
    pub fn must(&mut self, sql: &str) -> Result<(), FairnessError> {
        match self.run(sql)? {
            None => Ok(()),
            Some(code) => Err(FairnessError::Statement {
                statement: sql.chars().take(80).collect(),
                code,
            }),
        }
    }

    fn answer(&mut self) -> io::Result<Option<String>> {
        let mut code = None;
        loop {
            let mut head = [0; 5];
            self.reader.read_exact(&mut head)?;
            let [kind, length @ ..] = head;
            let length = u32::from_be_bytes(length).saturating_sub(4);
            let mut body = vec![0; length as usize];
            self.reader.read_exact(&mut body)?;
            match kind {
                ERROR => code = Some(sqlstate(&body)),
                READY => return Ok(code),
                _ => {}
            }
        }
    }
}

/// A message with its length; the first of a connection has no kind.
fn framed(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    kind.into_iter()
        .chain(length)
        .chain(body.iter().copied())
        .collect()
}

fn sqlstate(error: &[u8]) -> String {
    let mut fields = error.split(|byte| *byte == 0);
    let code = fields.find_map(|field| match field {
        [CODE, code @ ..] => Some(String::from_utf8_lossy(code).into_owned()),
        _ => None,
    });
    code.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_length_and_errors_their_code() {
        assert_eq!(framed(Some(b'Q'), b"x\0"), b"Q\0\0\0\x06x\0");
        assert_eq!(framed(None, b"x"), b"\0\0\0\x05x");
        assert_eq!(sqlstate(b"SERROR\0C57014\0Mcancelled\0\0"), "57014");
        assert_eq!(sqlstate(b""), "");
    }
}
