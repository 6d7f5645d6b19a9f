//! Generated regions of files that are otherwise written by hand.
//!
//! A region begins with a comment `# generated: <name>` and ends with `# end of generated: <name>`. The rest of both
//! lines is ignored.

/// Replaces the content of each region and keeps its markers.
pub fn replace(text: &str, regions: &[(&str, String)]) -> Result<String, String> {
    let mut text = text.to_owned();
    for (name, content) in regions {
        text = replace_one(&text, name, content)?;
    }
    Ok(text)
}

fn replace_one(text: &str, name: &str, content: &str) -> Result<String, String> {
    let (begin, end) = (format!("# generated: {name}"), format!("# end of generated: {name}"));
    let position = |marker: &str| {
        let mut found = text.match_indices(marker).map(|(at, _)| at);
        match (found.next(), found.next()) {
            (Some(at), None) => Ok(at),
            (None, _) => Err(format!("the marker {marker:?} is missing; restore it")),
            (Some(_), Some(_)) => Err(format!("the marker {marker:?} occurs twice; remove one")),
        }
    };
    let (begin, end) = (position(&begin)?, position(&end)?);
    if end < begin {
        return Err(format!("the region {name:?} ends before it begins"));
    }
    let after_begin = text[begin..].find('\n').map_or(text.len(), |offset| begin + offset + 1);
    let line_of_end = text[..end].rfind('\n').map_or(0, |offset| offset + 1);
    Ok(format!("{}{content}{}", &text[..after_begin], &text[line_of_end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a\n  # generated: x (by gen)\n  old\n  # end of generated: x\nb\n";

    #[test]
    fn text_outside_the_region_is_kept() {
        let replaced = replace(TEXT, &[("x", "  new\n".into())]).unwrap();
        assert_eq!(replaced, "a\n  # generated: x (by gen)\n  new\n  # end of generated: x\nb\n");
        assert_eq!(replace(&replaced, &[("x", "  new\n".into())]).unwrap(), replaced);
    }

    #[test]
    fn error_names_missing_or_duplicate_marker() {
        let why = replace(TEXT, &[("y", String::new())]).unwrap_err();
        assert!(why.contains("# generated: y"), "{why}");
        let why = replace(&TEXT.repeat(2), &[("x", String::new())]).unwrap_err();
        assert!(why.contains("twice"), "{why}");
    }
}
