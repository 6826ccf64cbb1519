//! The secret part of the server's addresses.

use std::fmt::Write as _;

use crate::ServeError;

/// Random bytes in a token: nobody guesses 128 bits.
const BYTES: usize = 16;

/// A random word that addresses begin with. It has no `Debug`, so that no log ever has it.
pub(crate) struct Token(String);

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new() -> Result<Self, ServeError> {
        let mut random = [0u8; BYTES];
        getrandom::fill(&mut random).map_err(ServeError::Token)?;
        Ok(Self(random.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string can't fail.
            let _ = write!(text, "{byte:02x}");
            text
        })))
    }

    /// For addresses that the person is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What follows `/TOKEN` in a path; `None` if it begins otherwise. Takes the same time wherever the difference is.
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
    fn only_the_whole_token_opens() {
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
