//! The secret part of the server's URLs.

use std::fmt::Write as _;

use crate::ServeError;

/// Random bytes in a token: 128 bits can't be guessed.
const BYTES: usize = 16;

/// A random secret at the start of paths. It has no `Debug`, so it is never logged.
pub(crate) struct Token(String);

impl Token {
    /// Creates a random token.
    ///
    /// # Errors
    /// When the system provides no random bytes.
    pub fn new() -> Result<Self, ServeError> {
        let mut random = [0u8; BYTES];
        getrandom::fill(&mut random).map_err(ServeError::Token)?;
        Ok(Self(random.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string can't fail.
            let _ = write!(text, "{byte:02x}");
            text
        })))
    }

    /// The token's text, for URLs shown to the user.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The part of a path after `/TOKEN`; `None` if the token is wrong. Takes the same time wherever the difference is.
    pub fn strip<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (found, rest) = path.strip_prefix('/')?.split_at_checked(self.0.len())?;
        let difference = found.bytes().zip(self.0.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
        (difference == 0).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_full_token_opens() {
        let token = Token::new().unwrap();
        let word = token.reveal().to_owned();
        assert_eq!(word.len(), 2 * BYTES);
        assert_eq!(token.strip(&format!("/{word}/a")), Some("/a"));
        assert_eq!(token.strip(&format!("/{word}")), Some(""));
        for wrong in [
            "",
            "/",
            "/é",
            &format!("/{}", &word[1..]),
            &format!("//{word}/a"),
            &word,
        ] {
            assert_eq!(token.strip(wrong), None, "{wrong}");
        }
        assert_ne!(word, Token::new().unwrap().reveal());
    }
}
