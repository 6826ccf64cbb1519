//! The arguments of `ngmi order`.

use std::path::PathBuf;

use clap::Args;

use super::values::LinkerArg;

/// `ngmi order`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ngmi record --cold --exact-touch --save-only -- ./program\n  \
                  ngmi order profile.json.gz --file ./program -o p.order\n  \
                  cc -ffunction-sections *.c -fuse-ld=lld -Wl,--symbol-ordering-file=p.order\n\n\
                  Functions that never ran keep their order, after the others."
)]
pub struct Order {
    /// A profile, or an event log (which lists every fault)
    #[arg(value_name = "RECORDING", default_value = "profile.json.gz")]
    pub input: PathBuf,
    /// The program or library: a path, or a name in the recording; an unstripped copy with the same
    /// build id works, too
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
    /// Linker to write the order for
    #[arg(long, value_name = "LINKER", value_enum, default_value_t)]
    pub format: LinkerArg,
    /// Output file; default: standard output (`-`)
    #[arg(short, long, value_name = "LIST")]
    pub output: Option<PathBuf>,
    /// Print the prediction as JSON
    #[arg(long, requires = "output")]
    pub json: bool,
}
