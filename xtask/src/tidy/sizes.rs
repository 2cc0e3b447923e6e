//! Files of at most 500 lines, functions of at most 70: what fits into a head.

use super::Finding;
use super::exceptions::Exceptions;
use super::files::{Tree, is_generated, is_tests};
use super::source::code_only;

/// Longest file, tests in `tests.rs` and `tests/` aside.
const FILE_LINES_MAX: usize = 500;
/// Longest function, from its `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(tree: &Tree, exceptions: &Exceptions, found: &mut Vec<Finding>) {
    let checked = || tree.rust().filter(|(name, _)| !is_generated(name) && !is_tests(name));
    let mut files = Vec::new();
    let mut functions = Vec::new();
    for (name, text) in checked() {
        files.push((name, text.lines().count()));
        functions.extend(functions_of(text).into_iter().map(|function| (name, function)));
    }
    check_files(&files, exceptions, found);
    check_functions(&functions, exceptions, found);
}

fn check_files(files: &[(&str, usize)], exceptions: &Exceptions, found: &mut Vec<Finding>) {
    for (name, lines) in files {
        let allowed = exceptions.files.iter().find(|(file, _)| file == name).map(|(_, lines)| *lines);
        if let Some(wrong) = verdict(*lines, FILE_LINES_MAX, allowed) {
            found.push(Finding::new(*name, format!("the file has {lines} lines, {wrong}")));
        }
    }
    for (name, _) in exceptions.files {
        if !files.iter().any(|(file, _)| file == name) {
            found.push(Finding::new(*name, "is gone: take it out of the exceptions"));
        }
    }
}

fn check_functions(functions: &[(&str, Function)], exceptions: &Exceptions, found: &mut Vec<Finding>) {
    for (name, function) in functions {
        let allowed = exceptions
            .functions
            .iter()
            .find(|(file, of, _)| file == name && *of == function.name)
            .map(|(_, _, lines)| *lines);
        if let Some(wrong) = verdict(function.lines, FUNCTION_LINES_MAX, allowed) {
            let place = format!("{name}:{}", function.first_line);
            found.push(Finding::new(
                place,
                format!("{} has {} lines, {wrong}", function.name, function.lines),
            ));
        }
    }
    for (name, of, _) in exceptions.functions {
        if !functions.iter().any(|(file, function)| file == name && function.name == *of) {
            found.push(Finding::new(*name, format!("{of} is gone: take it out of the exceptions")));
        }
    }
}

/// What is wrong with a size, given the limit and the exception made for it.
fn verdict(lines: usize, max: usize, allowed: Option<usize>) -> Option<String> {
    match allowed {
        None if lines > max => Some(format!("at most {max}: split it by subject")),
        Some(allowed) if lines <= max => Some(format!("it fits: take its {allowed} out of the exceptions")),
        Some(allowed) if lines > allowed => Some(format!("its exception is {allowed}, and may only shrink")),
        Some(allowed) if lines < allowed => Some(format!("lower its exception from {allowed}")),
        _ => None,
    }
}

struct Function {
    name: String,
    first_line: usize,
    lines: usize,
}

/// Every function with a body, those within others too.
fn functions_of(text: &str) -> Vec<Function> {
    let code = code_only(text);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let signature = &code[at + "fn ".len()..];
        let name: String =
            signature.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if let Some(len) = body_len(signature).filter(|_| !name.is_empty()) {
            let lines = signature[..len].lines().count();
            found.push(Function { name, first_line: 1 + code[..at].matches('\n').count(), lines });
        }
    }
    found
}

/// The length up to the brace that closes the body; nothing if there is only a signature.
fn body_len(signature: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0usize, 0usize);
    for (at, c) in signature.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if braces == 0 && brackets == 0 => return None,
            '{' => braces += 1,
            '}' if braces <= 1 => return Some(at + 1),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_reaches_from_its_name_to_its_brace() {
        let text =
            "trait T {\n    fn none(&self) -> [u8; 4];\n    fn two(&self) {\n    }\n}\ntype F = fn (u8);\n";
        let found: Vec<_> = functions_of(text).into_iter().map(|f| (f.name, f.first_line, f.lines)).collect();
        assert_eq!(found, [("two".to_owned(), 3, 2)]);
    }

    #[test]
    fn an_exception_may_only_shrink() {
        assert!(verdict(500, 500, None).is_none());
        assert!(verdict(501, 500, None).is_some());
        assert!(verdict(600, 500, Some(600)).is_none());
        assert!(verdict(601, 500, Some(600)).is_some());
        assert!(verdict(599, 500, Some(600)).is_some());
        assert!(verdict(400, 500, Some(600)).is_some());
    }
}
