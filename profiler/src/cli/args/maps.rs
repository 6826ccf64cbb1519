//! The arguments of `ngmi maps`.

use clap::Args;

/// `ngmi maps`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi maps 1234\n  ngmi maps 1234 --exec\n  ngmi maps $$ --addr 7f12a0b3c4d5\n\n\
                  The exit status is 1 if an address is in no mapping."
)]
pub struct Maps {
    /// Process id
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub pid: u32,
    /// Resolve this address: file, build id, svma (the address in the ELF file) and file offset
    /// (hexadecimal, repeatable)
    #[arg(short, long = "addr", value_name = "ADDR", value_parser = hexadecimal)]
    pub addresses: Vec<u64>,
    /// Only executable mappings
    #[arg(short = 'x', long = "exec", conflicts_with = "addresses")]
    pub executable: bool,
    /// Print JSON, with all fields and build ids
    #[arg(long)]
    pub json: bool,
    /// How to read the mappings, for comparison or to emulate an older kernel
    #[arg(long, hide = true)]
    pub way: Option<Way>,
}

/// How `ngmi maps` reads mappings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// `PROCMAP_QUERY`
    Ioctl,
    /// `/proc/PID/maps`
    Text,
}

fn hexadecimal(text: &str) -> Result<u64, String> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    number.ok_or_else(|| "give an address in hexadecimal, as in 7f12a0b3c4d5 or 0x7f12a0b3c4d5".to_owned())
}
