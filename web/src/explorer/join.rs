//! Joins ES modules into one script with one scope: imports are removed, exports become plain declarations.
//!
//! The modules must use a subset of the syntax; anything else is an error. Allowed are lines `import { a, b } from "./x.js";` of
//! names that `x.js` exports, and `export` before a declaration at the start of a line. Top-level names must be unique, or a
//! browser would reject the script.

use std::collections::{HashMap, HashSet};

use super::{Asset, PageError};

/// Joins modules, which must follow those that they import.
pub fn modules<'a>(modules: impl Iterator<Item = &'a Asset>) -> Result<String, PageError> {
    let mut joined = String::new();
    let mut exports: HashMap<&str, HashSet<&str>> = HashMap::new();
    let mut taken: HashMap<&str, &str> = HashMap::new();
    for module in modules {
        let wrong = |what: &str, line: &str| Err(PageError::Module(format!("{}: {what}: {line}", module.path)));
        if module.body.contains("</script") || module.body.contains("<!--") {
            return wrong("it would end or change its script element", "");
        }
        let mut own = HashSet::new();
        for line in module.body.lines() {
            if line.starts_with("import") {
                let Some((names, from)) = import(line) else {
                    return wrong("not an import that can be joined", line);
                };
                let Some(known) = exports.get(from) else {
                    return wrong("imports a module that is not listed before", line);
                };
                if names.split(',').any(|name| !known.contains(name.trim())) {
                    return wrong("imports a name that is not exported", line);
                }
                continue;
            }
            let (declaration, exported) = match line.strip_prefix("export ") {
                Some(rest) => (rest, true),
                None => (line, false),
            };
            let name = declared(declaration);
            if exported && name.is_none() {
                return wrong("not an export that can be joined", line);
            }
            if let Some(name) = name {
                if let Some(other) = taken.insert(name, module.path) {
                    return wrong(&format!("the name is already declared in {other}"), line);
                }
                if exported {
                    own.insert(name);
                }
            }
            joined.push_str(declaration);
            joined.push('\n');
        }
        exports.insert(module.path, own);
    }
    Ok(joined)
}

/// Parses the names and the module of `import { a, b } from "./x.js";`.
fn import(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("import { ")?.strip_suffix("\";")?;
    let (names, from) = rest.split_once(" } from \"./")?;
    (!names.contains(" as ")).then_some((names, from))
}

/// The name that a line declares, if it starts a top-level declaration.
fn declared(line: &str) -> Option<&str> {
    let rest = ["const ", "let ", "function ", "class ", "async function "]
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword))?;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'))?;
    Some(rest.split_at(end).0).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(bodies: &[(&'static str, &'static str)]) -> Result<String, PageError> {
        let assets: Vec<Asset> = bodies
            .iter()
            .map(|&(path, body)| Asset {
                path,
                content_type: "",
                body,
            })
            .collect();
        modules(assets.iter())
    }

    #[test]
    fn imports_are_removed_and_exports_kept() {
        let joined = join(&[
            ("a.js", "export const a = 1;\nexport function b() {\n  return a;\n}\n"),
            ("b.js", "import { a, b } from \"./a.js\";\nconsole.log(a, b());\n"),
        ]);
        let expected = "const a = 1;\nfunction b() {\n  return a;\n}\nconsole.log(a, b());\n";
        assert_eq!(joined.unwrap(), expected);
    }

    #[test]
    fn unjoinable_modules_are_rejected() {
        let refused: [&[(&str, &str)]; 7] = [
            &[("a.js", "import * as b from \"./b.js\";\n")],
            &[("a.js", "import { b } from \"./b.js\";\n")],
            &[("a.js", "const b = 1;\n"), ("c.js", "import { b } from \"./a.js\";\n")],
            &[
                ("a.js", "export const b = 1;\n"),
                ("c.js", "import { b as c } from \"./a.js\";\n"),
            ],
            &[("a.js", "const b = 1;\n"), ("c.js", "const b = 2;\n")],
            &[("a.js", "export default 1;\n")],
            &[("a.js", "const b = '</script>';\n")],
        ];
        for modules in refused {
            assert!(join(modules).is_err(), "{modules:?}");
        }
    }
}
