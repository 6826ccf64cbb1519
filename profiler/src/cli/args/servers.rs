//! The servers for names, of the subcommands that look names up.

use clap::Args;

use crate::record::servers::VARIABLE;

/// Which servers may be asked for the names of functions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
#[command(next_help_heading = "Symbol servers")]
pub struct Servers {
    /// Ask this server for Breakpad symbols of files with nameless functions (repeatable); Mozilla's
    /// is asked about builds from Mozilla
    #[arg(long, value_name = "URL", env = VARIABLE, value_delimiter = ' ', value_parser = address)]
    pub symbol_server: Vec<String>,
    /// Contact no server, not even those in the environment
    #[arg(long)]
    pub no_network: bool,
}

/// An empty variable names no server.
fn address(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    symbols::server_url(text)
}
