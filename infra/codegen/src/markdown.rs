//! Markdown tables.

/// A table. Texts must be escaped with [`cell`] unless they are [`code`].
pub fn table<const COLUMNS: usize>(header: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&header.map(str::to_owned)) + "|" + &"---|".repeat(COLUMNS) + "\n";
    for row in rows {
        text += &line(row);
    }
    text
}

/// A text of any length, on one line.
pub fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// `text` in backticks; nothing if it is empty.
pub fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", cell(text)) }
}

/// A list in backticks, separated by commas.
pub fn codes<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(code).collect::<Vec<_>>().join(", ")
}

/// The first letter in upper case.
pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_do_not_break_the_table() {
        let text = table(["a", "b"], &[[cell("x | y\n  z"), code("p|q")]]);
        assert_eq!(text, "| a | b |\n|---|---|\n| x \\| y z | `p\\|q` |\n");
    }
}
