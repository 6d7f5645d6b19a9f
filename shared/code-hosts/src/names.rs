//! Names that git accepts for branches. Hosts check a name before they use it, so that the same names are valid at
//! all of them, and so that none is taken for an option of git.

use crate::{Failure, Reason};

/// GitHub's limit for the name of a ref.
pub const MAX_BYTES: usize = 255 - "refs/heads/".len();

/// Whether git accepts `name` for a branch (`git check-ref-format --branch`), and it is not too long.
pub fn is_branch(name: &str) -> bool {
    let is_forbidden = |character: char| character.is_control() || " ~^:?*[\\".contains(character);
    let is_component = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    name.len() <= MAX_BYTES
        && name.split('/').all(is_component)
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !["..", "@{"].iter().any(|text| name.contains(text))
        && !["@", "HEAD"].contains(&name)
        && !name.contains(is_forbidden)
}

/// Whether `text` is the full id of an object.
pub fn is_commit(text: &str) -> bool {
    [40, 64].contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

pub(crate) fn check_branch(name: &str) -> Result<(), Failure> {
    let invalid = || Failure::new(Reason::Invalid, format!("{name:?} is not a valid name of a branch"));
    is_branch(name).then_some(()).ok_or_else(invalid)
}

pub(crate) fn check_commit(commit: &str) -> Result<(), Failure> {
    let invalid = || Failure::new(Reason::Invalid, format!("{commit:?} is not the full id of a commit"));
    is_commit(commit).then_some(()).ok_or_else(invalid)
}

/// A branch or a commit.
pub(crate) fn check_revision(revision: &str) -> Result<(), Failure> {
    if is_commit(revision) { Ok(()) } else { check_branch(revision) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_git_accepts() {
        for valid in
            ["main", "feature/ü", "fix/100%-cpu", "a/b/c", "@a", "a@", "x.y", "名", "a-", "head", "a.lockx"]
        {
            assert!(is_branch(valid), "{valid}");
        }
        for invalid in [
            "", "-x", "a b", "a..b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "a\n", "a\u{7f}", "a@{1}",
            "@", "HEAD", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "a/./b",
        ] {
            assert!(!is_branch(invalid), "{invalid:?}");
        }
        assert!(is_branch(&"x".repeat(MAX_BYTES)) && !is_branch(&"x".repeat(MAX_BYTES + 1)));
    }

    #[test]
    fn commits_are_full_ids_in_lower_case() {
        assert!(is_commit(&"0a".repeat(20)) && is_commit(&"f".repeat(64)));
        for invalid in ["", "main", &"A".repeat(40), &"a".repeat(39), &"g".repeat(40), &"a".repeat(41)] {
            assert!(!is_commit(invalid), "{invalid}");
        }
    }
}
