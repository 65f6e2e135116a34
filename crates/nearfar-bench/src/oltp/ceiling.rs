//! A server that answers every statement immediately with the same bytes: what the client and the connections take,
//! whatever a database does.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::yield_now;

/// What clients ask before they begin: for a connection with TLS, and for one with GSSAPI.
const ENCRYPTED: [u32; 2] = [80_877_103, 80_877_104];

/// The server, on a thread of its own that never sleeps. It ends when this is dropped.
#[derive(Debug)]
pub struct Ceiling {
    /// Where it listens.
    pub address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ceiling {
    /// Starts it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let serve = move || {
            runtime.block_on(async {
                tokio::spawn(accept(listener));
                // The thread looks for messages again and again, which no client has to wake it for.
                while !ends.load(Ordering::Relaxed) {
                    yield_now().await;
                }
            });
        };
        let thread = std::thread::Builder::new().name("ceiling".to_owned());
        Ok(Self {
            address,
            is_over,
            thread: Some(thread.spawn(serve)?),
        })
    }
}

impl Drop for Ceiling {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Of a panic, its clients have told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        // A connection that fails is its client's to tell of.
        tokio::spawn(async move { Client::new(stream)?.serve().await });
    }
}

/// A connection.
struct Client {
    stream: TcpStream,
    input: BytesMut,
    output: BytesMut,
    /// Statements that were prepared, by name.
    prepared: HashMap<Bytes, Answer>,
}

impl Client {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            prepared: HashMap::new(),
        })
    }

    async fn serve(&mut self) -> io::Result<()> {
        while ENCRYPTED.contains(&self.message(0).await?.get_u32()) {
            self.stream.write_all(b"N").await?;
        }
        self.put(b'R', &[0; 4]);
        self.put(b'S', b"server_version\x0015.0\0");
        self.put(b'S', b"client_encoding\0UTF8\0");
        self.put(b'Z', b"I");
        let mut bound = Answer::default();
        loop {
            let kind = self.kind().await?;
            let mut body = self.message(1).await?;
            match kind {
                b'Q' => {
                    let answer = Answer::of(&text(&mut body));
                    self.output.put_slice(&answer.described);
                    self.output.put_slice(&answer.executed);
                    self.put(b'Z', b"I");
                }
                b'P' => {
                    let name = text(&mut body);
                    self.prepared.insert(name, Answer::of(&text(&mut body)));
                    self.put(b'1', b"");
                }
                b'B' => {
                    let _portal = text(&mut body);
                    let statement = self.prepared.get(&text(&mut body));
                    bound = statement.cloned().ok_or(io::ErrorKind::InvalidData)?;
                    self.put(b'2', b"");
                }
                b'D' => self.output.put_slice(&bound.described),
                b'E' => self.output.put_slice(&bound.executed),
                b'S' => self.put(b'Z', b"I"),
                _ => return Ok(()),
            }
        }
    }

    /// The kind of the next message, before which all answers are sent once there are no more messages.
    async fn kind(&mut self) -> io::Result<u8> {
        if self.input.is_empty() && !self.output.is_empty() {
            self.stream.write_all_buf(&mut self.output).await?;
        }
        self.fill(1).await?;
        Ok(self.input[0])
    }

    /// The body of the next message, whose length stands behind so many bytes.
    async fn message(&mut self, kind_bytes: usize) -> io::Result<Bytes> {
        self.fill(kind_bytes + 4).await?;
        let length = (&self.input[kind_bytes..]).get_u32() as usize;
        self.fill(kind_bytes + length).await?;
        let mut message = self.input.split_to(kind_bytes + length);
        message.advance(kind_bytes + 4);
        Ok(message.freeze())
    }

    async fn fill(&mut self, bytes: usize) -> io::Result<()> {
        while self.input.len() < bytes {
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    fn put(&mut self, kind: u8, body: &[u8]) {
        put(&mut self.output, kind, body);
    }
}

/// Adds a message.
fn put(messages: &mut BytesMut, kind: u8, body: &[u8]) {
    messages.put_u8(kind);
    messages.put_u32(body.len() as u32 + 4);
    messages.put_slice(body);
}

/// A text that ends with a zero byte.
fn text(body: &mut Bytes) -> Bytes {
    let end = body.iter().position(|byte| *byte == 0);
    let text = body.split_to(end.unwrap_or(body.len()));
    body.advance(1.min(body.len()));
    text
}

/// What is said to a statement: messages, which are made when it is prepared.
#[derive(Debug, Clone, Default)]
struct Answer {
    described: Bytes,
    executed: Bytes,
}

impl Answer {
    fn of(statement: &[u8]) -> Self {
        let statement = String::from_utf8_lossy(statement);
        let verb = statement.split_whitespace().next().unwrap_or_default();
        let verb = verb.trim_end_matches(';').to_ascii_uppercase();
        let tag = match verb.as_str() {
            "SELECT" => "SELECT 1",
            "INSERT" => "INSERT 0 1",
            "UPDATE" => "UPDATE 1",
            "END" => "COMMIT",
            other => other,
        };
        let columns: u16 = match verb.as_str() {
            // What pgbench asks for first is whether its tables have partitions.
            "SELECT" if statement.contains("partstrat") => 3,
            "SELECT" => 1,
            _ => 0,
        };
        let (mut described, mut executed) = (BytesMut::new(), BytesMut::new());
        match columns.checked_sub(1) {
            Some(others) => {
                let count = columns.to_be_bytes();
                // A name, no table, four-byte integers, in text.
                let column = b"n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
                let all = column.repeat(usize::from(columns));
                put(&mut described, b'T', &[&count, &all[..]].concat());
                // One row: 1, and nulls.
                let nulls = [0xff; 4].repeat(usize::from(others));
                put(
                    &mut executed,
                    b'D',
                    &[&count, &b"\0\0\0\x011"[..], &nulls].concat(),
                );
            }
            None => put(&mut described, b'n', b""),
        }
        put(&mut executed, b'C', format!("{tag}\0").as_bytes());
        Self {
            described: described.freeze(),
            executed: executed.freeze(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// All that is said to messages until the server closes the connection.
    fn said_to(messages: &[u8]) -> Vec<u8> {
        let ceiling = Ceiling::start().expect("a server");
        let mut stream = std::net::TcpStream::connect(ceiling.address).expect("a connection");
        stream.write_all(messages).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("ended");
        let mut said = Vec::new();
        stream.read_to_end(&mut said).expect("read");
        said
    }

    fn message(kind: &[u8], body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [kind, &length, body].concat()
    }

    #[test]
    fn prepared_statements_are_answered_when_they_are_executed() {
        let sent = [
            message(b"", b"\x04\xd2\x16\x2f"),
            message(b"", b"\0\x03\0\0user\0x\0\0"),
            message(b"P", b"s\0UPDATE t ...\0\0\0"),
            message(b"B", b"\0s\0\0\0\0\0\0\0"),
            message(b"D", b"P\0"),
            message(b"E", b"\0\0\0\0\0"),
            message(b"S", b""),
        ];
        let said = said_to(&sent.concat());
        assert_eq!(said[..2], *b"NR");
        let answers = [
            message(b"1", b""),
            message(b"2", b""),
            message(b"n", b""),
            message(b"C", b"UPDATE 1\0"),
            message(b"Z", b"I"),
        ];
        assert!(said.ends_with(&answers.concat()), "{}", said.escape_ascii());
    }

    #[test]
    fn queries_have_a_row_and_others_none() {
        let executed = |statement: &str| Answer::of(statement.as_bytes()).executed;
        let row = message(b"D", b"\0\x01\0\0\0\x011");
        let rows = [row, message(b"C", b"SELECT 1\0")].concat();
        assert_eq!(executed("select 1;"), rows);
        assert_eq!(executed("END;"), message(b"C", b"COMMIT\0"));
        assert_eq!(executed(""), message(b"C", b"\0"));
    }
}
