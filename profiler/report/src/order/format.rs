//! Output formats of the function order, by linker.

use std::io::{self, Write};

use rustc_hash::FxHashSet;
use symbols::elf::FunctionSymbol;

use super::touch::Touched;

/// Linker or optimizer that reads the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `ld.lld --symbol-ordering-file`
    Lld,
    /// `ld.gold --section-ordering-file`
    Gold,
    /// `llvm-bolt --reorder-functions=user --function-order`
    Bolt,
}

impl Format {
    /// Command line that uses the list.
    pub fn usage(self) -> &'static str {
        match self {
            Self::Lld => {
                "cc -ffunction-sections … -fuse-ld=lld -Wl,--symbol-ordering-file=LIST -Wl,--no-warn-symbol-ordering"
            }
            Self::Gold => "cc -ffunction-sections … -fuse-ld=gold -Wl,--section-ordering-file=LIST",
            Self::Bolt => "llvm-bolt FILE -o NEW --reorder-functions=user --function-order=LIST",
        }
    }
}

/// Writes the functions in order, each name once.
///
/// # Errors
/// When writing fails.
pub fn write(out: &mut dyn Write, format: Format, functions: &[FunctionSymbol], touched: &[Touched]) -> io::Result<()> {
    let mut known: FxHashSet<&str> = FxHashSet::default();
    let names = touched.iter().filter_map(|touched| functions.get(touched.function));
    for function in names.filter(|function| known.insert(&function.name)) {
        let name = &*function.name;
        match format {
            Format::Lld | Format::Bolt => writeln!(out, "{name}")?,
            Format::Gold => {
                for section in sections(name) {
                    writeln!(out, "{section}")?;
                }
            }
        }
    }
    Ok(())
}

/// The sections that `-ffunction-sections` may have put a function into; the linked file does not record which.
fn sections(name: &str) -> Vec<String> {
    // The rarely executed part of a function is in a separate section, under the name of the whole function.
    if let Some(whole) = name.strip_suffix(".cold") {
        return vec![format!(".text.unlikely.{whole}"), format!(".text.split.{name}")];
    }
    let mut sections = vec![format!(".text.{name}"), format!(".text.hot.{name}")];
    if name == "main" || name.starts_with("_GLOBAL__") {
        sections.push(format!(".text.startup.{name}"));
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::addr::Timestamp;

    #[test]
    fn each_linker_gets_what_it_reads() {
        let function = |name: &str| FunctionSymbol {
            svma: 0,
            size: 1,
            name: name.to_owned(),
            local: true,
            aliases: 0,
        };
        let functions = [
            function("main"),
            function("_ZN1a1bEv"),
            function("helper"),
            function("helper"),
            function("_ZN1a1bEv.cold"),
        ];
        let touched: Vec<Touched> = [1, 3, 2, 4, 0]
            .map(|function| Touched {
                function,
                time: Timestamp(0),
            })
            .to_vec();
        let written = |format| {
            let mut text = Vec::new();
            write(&mut text, format, &functions, &touched).unwrap();
            String::from_utf8(text).unwrap()
        };
        let names = "_ZN1a1bEv\nhelper\n_ZN1a1bEv.cold\nmain\n";
        assert_eq!(written(Format::Lld), names);
        assert_eq!(written(Format::Bolt), names);
        let sections = ".text._ZN1a1bEv\n.text.hot._ZN1a1bEv\n.text.helper\n.text.hot.helper\n.text.unlikely._ZN1a1bEv\n\
                        .text.split._ZN1a1bEv.cold\n.text.main\n.text.hot.main\n.text.startup.main\n";
        assert_eq!(written(Format::Gold), sections);
    }
}
