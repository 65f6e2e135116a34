//! The simple protocol: scripts of statements, answered one after another.

use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::EmptyQueryResponse;

use super::connection::Connection;
use super::interrupt::Ended;
use super::statement::Outcome;

impl Connection {
    /// Runs a script up to its first error.
    pub async fn simple(&mut self, sql: String) -> Result<(), Ended> {
        // As in PostgreSQL, a script replaces the nameless statement and portal.
        self.prepared.remove("");
        self.portals.remove("");
        // What reading takes is part of the first statement.
        let mut deadline = self.deadline();
        let statements = match self.recent.get(&sql) {
            Some(known) => vec![known],
            None => self.read(sql, deadline).await?,
        };
        if let [one] = &statements[..] {
            self.recent.keep(one);
        }
        if statements.is_empty() {
            let empty = PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new());
            self.writer.add(&empty)?;
        }
        for (index, statement) in statements.into_iter().enumerate() {
            if index > 0 {
                deadline = self.deadline();
            }
            match self.run(&statement, Vec::new(), &[], deadline).await? {
                Outcome::Done(tag) => self.complete(&tag)?,
                Outcome::Rows(mut output) => {
                    self.add_all(&output.begin())?;
                    let (count, _) = self.send_rows(&mut output, 0, deadline).await?;
                    self.add_all(&output.complete(count))?;
                }
            }
        }
        Ok(())
    }
}
