//! The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding.
//!
//! The protocol's crate has one too, but wants the salted password, with which a thief of the file of
//! users could log in. This one needs no more than [`Verifier`]s.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use super::verifier::{KEY_BYTES, Key, Verifier, hash, random, sign};

/// Why an exchange ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// A message that is none of the exchange.
    #[error("malformed SCRAM message")]
    Malformed,
    /// A client that insists on channel binding.
    #[error("SCRAM with channel binding is not supported")]
    ChannelBinding,
    /// The password is another.
    #[error("the proof does not fit")]
    WrongPassword,
}

/// Random bytes of a nonce.
const NONCE_BYTES: usize = 18;

/// The client's first message, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFirst {
    /// What stands before the message proper, such as `n,,`.
    header: String,
    bare: String,
    nonce: String,
}

impl ClientFirst {
    /// Reads the message.
    ///
    /// # Errors
    /// [`ScramError::Malformed`], [`ScramError::ChannelBinding`].
    pub fn read(message: &[u8]) -> Result<Self, ScramError> {
        let text = std::str::from_utf8(message).map_err(|_| ScramError::Malformed)?;
        let mut parts = text.splitn(3, ',');
        let (flag, authorised) = (parts.next(), parts.next());
        let bare = parts.next().ok_or(ScramError::Malformed)?;
        match flag {
            Some("n" | "y") => {}
            Some(flag) if flag.starts_with("p=") => return Err(ScramError::ChannelBinding),
            _ => return Err(ScramError::Malformed),
        }
        // The name in the message is ignored, as in PostgreSQL: the one of the connection counts.
        let nonce = bare
            .strip_prefix("n=")
            .and_then(|rest| rest.split(',').nth(1))
            .and_then(|nonce| nonce.strip_prefix("r="))
            .filter(|nonce| !nonce.is_empty())
            .ok_or(ScramError::Malformed)?;
        Ok(Self {
            header: format!(
                "{},{},",
                flag.unwrap_or_default(),
                authorised.unwrap_or_default()
            ),
            bare: bare.to_owned(),
            nonce: nonce.to_owned(),
        })
    }
}

/// An exchange whose first messages have been sent.
#[derive(Debug)]
pub struct Exchange {
    first: ClientFirst,
    nonce: String,
    /// The server's first message.
    answer: String,
    verifier: Verifier,
}

impl Exchange {
    /// Answers the client's first message.
    pub fn begin(first: ClientFirst, verifier: Verifier) -> Self {
        let own = STANDARD.encode(random::<NONCE_BYTES>());
        Self::with_nonce(first, verifier, &own)
    }

    fn with_nonce(first: ClientFirst, verifier: Verifier, own: &str) -> Self {
        let nonce = format!("{}{own}", first.nonce);
        let salt = STANDARD.encode(&verifier.salt);
        let answer = format!("r={nonce},s={salt},i={}", verifier.iterations);
        Self {
            first,
            nonce,
            answer,
            verifier,
        }
    }

    /// The server's first message.
    pub fn answer(&self) -> &str {
        &self.answer
    }

    /// Checks the client's last message; returns the server's, which proves that it knows the
    /// password too.
    ///
    /// # Errors
    /// [`ScramError::Malformed`], [`ScramError::WrongPassword`].
    pub fn finish(&self, message: &[u8]) -> Result<String, ScramError> {
        let text = std::str::from_utf8(message).map_err(|_| ScramError::Malformed)?;
        let (unproved, proof) = text.rsplit_once(",p=").ok_or(ScramError::Malformed)?;
        let proof: Key = STANDARD
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(ScramError::Malformed)?;
        let mut parts = unproved.split(',');
        let binding = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        if binding != Some(&STANDARD.encode(&self.first.header)) || nonce != Some(&self.nonce) {
            return Err(ScramError::Malformed);
        }
        let exchanged = format!("{},{},{unproved}", self.first.bare, self.answer);
        let mut client_key = sign(&self.verifier.stored_key, exchanged.as_bytes());
        for at in 0..KEY_BYTES {
            client_key[at] ^= proof[at];
        }
        if !bool::from(hash(&client_key).ct_eq(&self.verifier.stored_key)) {
            return Err(ScramError::WrongPassword);
        }
        let signature = sign(&self.verifier.server_key, exchanged.as_bytes());
        Ok(format!("v={}", STANDARD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const OWN: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn exchange(password: &str) -> Exchange {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let iterations = 4096.try_into().expect("not zero");
        let verifier = Verifier::with_salt(password, &salt, iterations);
        Exchange::with_nonce(ClientFirst::read(FIRST).expect("read"), verifier, OWN)
    }

    /// RFC 7677, section 3.
    #[test]
    fn the_known_exchange_succeeds() {
        let exchange = exchange("pencil");
        let answer = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                      s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(exchange.answer(), answer);
        let last = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(exchange.finish(LAST.as_bytes()).as_deref(), Ok(last));
    }

    #[test]
    fn another_password_another_nonce_and_another_binding_are_refused() {
        let wrong = exchange("pencils").finish(LAST.as_bytes());
        assert_eq!(wrong, Err(ScramError::WrongPassword));
        for changed in [
            LAST.replace("$k0,", "$k1,"),
            LAST.replace("c=biws", "c=eSws"),
        ] {
            let refused = exchange("pencil").finish(changed.as_bytes());
            assert_eq!(refused, Err(ScramError::Malformed), "{changed}");
        }
        let bound = ClientFirst::read(b"p=tls-server-end-point,,n=,r=abc");
        assert_eq!(bound, Err(ScramError::ChannelBinding));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_let_in(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = ClientFirst::read(&bytes);
            prop_assert!(exchange("pencil").finish(&bytes).is_err());
        }
    }
}
