//! Duplicate detection for tickets, by their titles, and by their descriptions where the title is only the beginning of
//! the description.
//!
//! Deliberately absent: embeddings, which OmoiOS compares. Comparing texts costs nothing, needs no API key, and can be
//! explained to the user whose ticket is rejected. In doubt a ticket is accepted: a duplicate is annoying, but work that
//! is silently not done is worse.

use crate::ticket::{TITLE_OF_DESCRIPTION_CHARS, title_of};

/// A ticket whose similarity to another is at least this is a duplicate, unless the request names another threshold.
pub const DEFAULT_THRESHOLD: f64 = 0.85;

/// The title without case, punctuation, extra white space and stop words. Accents are kept.
///
/// `+` and `#` are kept at the end of a word, because C, C++ and C# differ. A title that consists only of stop words or
/// punctuation is kept.
pub fn normalize(title: &str) -> String {
    let lower = title.to_lowercase();
    let mut text = String::with_capacity(lower.len());
    for c in lower.chars() {
        let in_word = text.ends_with(|last: char| !last.is_whitespace());
        match c {
            '\'' | '’' => {}
            '+' | '#' if in_word => text.push(c),
            _ if c.is_alphanumeric() || is_accent(c) => text.push(c),
            _ => text.push(' '),
        }
    }
    let all: Vec<&str> = text.split_whitespace().collect();
    let significant: Vec<&str> = all.iter().copied().filter(|word| !STOP_WORDS.contains(word)).collect();
    match (significant.is_empty(), all.is_empty()) {
        (false, _) => significant.join(" "),
        (true, false) => all.join(" "),
        (true, true) => lower.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// Similarity of two titles, from 0 (nothing in common) to 1 (equal, once normalized).
///
/// The mean of the Sørensen–Dice coefficients of their word bigrams and their character trigrams. Bigrams rather than
/// single words, so that "convert JSON to YAML" is not "convert YAML to JSON"; trigrams, so that a typo counts for little.
/// Titles with different numbers are never duplicates: "part 1" and "part 2" are two pieces of work.
pub fn similarity(a: &str, b: &str) -> f64 {
    let (a, b) = (normalize(a), normalize(b));
    if a == b {
        return 1.0;
    }
    let mean = (dice(bigrams(&a), bigrams(&b)) + dice(trigrams(&a), trigrams(&b))) / 2.0;
    if numbers(&a) == numbers(&b) { mean } else { mean * DIFFERENT_NUMBERS }
}

#[derive(Debug, Clone, Copy)]
pub struct TicketText<'a> {
    pub title: &'a str,
    pub description: &'a str,
}

/// Similarity of two tickets, from 0 to 1: that of their titles, unless one title is the truncated beginning of its
/// description. Such a title does not say what is requested, so the descriptions must be equal too, apart from case and
/// white space.
pub fn ticket_similarity(left: TicketText<'_>, right: TicketText<'_>) -> f64 {
    let titles = similarity(left.title, right.title);
    let are_complete = !left.has_truncated_title() && !right.has_truncated_title();
    if are_complete || left.words().eq(right.words()) { titles } else { titles * DIFFERENT_TEXTS }
}

impl<'a> TicketText<'a> {
    /// Whether the title is only the beginning of the description.
    fn has_truncated_title(&self) -> bool {
        let is_longer = self.description.trim().chars().nth(TITLE_OF_DESCRIPTION_CHARS).is_some();
        is_longer && self.title == title_of(self.description)
    }

    fn words(self) -> impl Iterator<Item = String> + 'a {
        self.description.split_whitespace().map(str::to_lowercase)
    }
}

/// Words that do not change what is requested. `on`, `off`, `from` and `not` do.
const STOP_WORDS: [&str; 9] = ["a", "an", "and", "for", "in", "of", "please", "the", "to"];

/// Keeps titles with different numbers below any sensible threshold.
const DIFFERENT_NUMBERS: f64 = 0.75;

/// The same for descriptions that have only their beginning in common.
const DIFFERENT_TEXTS: f64 = 0.75;

/// Combining marks: some keyboards write é as two characters.
fn is_accent(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

/// Word bigrams, including the edges of the title. Plurals are reduced to the singular.
fn bigrams(title: &str) -> Vec<(&str, &str)> {
    let words: Vec<&str> = title.split(' ').map(singular).collect();
    let before = std::iter::once("").chain(words.iter().copied());
    let after = words.iter().copied().chain(std::iter::once(""));
    before.zip(after).collect()
}

fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() >= 3 && !stem.ends_with('s') => stem,
        _ => word,
    }
}

/// Character trigrams, including the edges of the title, so that a title of one letter has some.
fn trigrams(title: &str) -> Vec<[char; 3]> {
    let padded: Vec<char> = "  ".chars().chain(title.chars()).chain("  ".chars()).collect();
    padded.windows(3).map(|run| [run[0], run[1], run[2]]).collect()
}

fn numbers(title: &str) -> Vec<&str> {
    let mut numbers: Vec<&str> =
        title.split(' ').filter(|word| word.contains(|c: char| c.is_numeric())).collect();
    numbers.sort_unstable();
    numbers
}

/// The Sørensen–Dice coefficient of two multisets.
fn dice<T: Ord>(mut a: Vec<T>, mut b: Vec<T>) -> f64 {
    a.sort_unstable();
    b.sort_unstable();
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    let mut shared = 0;
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        match first.cmp(second) {
            std::cmp::Ordering::Less => drop(left.next()),
            std::cmp::Ordering::Greater => drop(right.next()),
            std::cmp::Ordering::Equal => {
                shared += 1;
                left.next();
                right.next();
            }
        }
    }
    f64::from(2 * shared) / (a.len() + b.len()).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn normalization_drops_case_punctuation_and_stop_words() {
        for (title, expected) in [
            ("Fix the login bug", "fix login bug"),
            ("  FIX: login-bug!! ", "fix login bug"),
            ("Don’t crash", "dont crash"),
            ("Don't crash", "dont crash"),
            ("Café für Émile", "café für émile"),
            ("cafe\u{301}", "cafe\u{301}"),
            ("Port it to C++ (from C#)", "port it c++ from c#"),
            ("Issue #12", "issue 12"),
            ("1 + 1", "1 1"),
            ("To the", "to the"),
            ("???", "???"),
            ("  ", ""),
            ("ログインを直す", "ログインを直す"),
        ] {
            assert_eq!(normalize(title), expected, "{title:?}");
        }
    }

    #[test]
    fn duplicates_are_distinguished_from_similar_titles() {
        let duplicates = [
            ("Fix the login bug", "fix login bug."),
            ("Fix the login bug", "Fix login bugs"),
            ("Please add a dark mode to the settings page", "Add dark mode to settings page"),
            ("Add user authentication with OAuth", "Add user authentication with O'Auth!"),
            (
                "Add an endpoint that lists all open tickets of a project by priority",
                "Add an endpoint that lists all open tickets of a project by piority",
            ),
            (
                "Write integration tests for the payment service and its webhooks",
                "Write the integration test for payment service and its webhook",
            ),
            ("Migrer la base de données", "migrer la base de données"),
        ];
        let others = [
            ("Fix the login bug", "Fix the logout bug"),
            ("Fix the login bug", "Add a dark mode"),
            ("Convert the configuration from JSON to YAML", "Convert the configuration from YAML to JSON"),
            (
                "Convert all configuration files of the deployment from JSON to YAML",
                "Convert all configuration files of the deployment from YAML to JSON",
            ),
            ("Turn on telemetry", "Turn off telemetry"),
            ("Allow uploads", "Do not allow uploads"),
            ("Create a user endpoint", "Delete a user endpoint"),
            ("Add OAuth login for the admin console", "Add OAuth login for the user console"),
            ("Port the parser to C++", "Port the parser to C#"),
            ("Implement the import of old invoices, part 1", "Implement the import of old invoices, part 2"),
            (
                "Write integration tests for the payment service and its webhooks, step 3 of the plan",
                "Write integration tests for the payment service and its webhooks, step 4 of the plan",
            ),
            ("Upgrade to version 1.2", "Upgrade to version 1.3"),
            ("Résumé", "Resume"),
            ("Fix", "Fix the tests"),
            ("A", "B"),
            ("", "Fix"),
        ];
        for (a, b) in duplicates {
            let got = similarity(a, b);
            assert!(got >= DEFAULT_THRESHOLD, "{a:?} and {b:?}: {got}");
        }
        for (a, b) in others {
            let got = similarity(a, b);
            assert!(got < DEFAULT_THRESHOLD, "{a:?} and {b:?}: {got}");
        }
        assert_eq!(similarity("Fix login", "Upgrade database"), 0.0);
    }

    #[test]
    fn descriptions_with_a_common_beginning_are_not_duplicates() {
        let start = "As a customer of the shop who is signed in and has at least one order I want to be able, on my page, ";
        assert!(start.chars().count() > TITLE_OF_DESCRIPTION_CHARS);
        let cut = |rest: &str| {
            let description = format!("{start}{rest}");
            (title_of(&description), description)
        };
        let similarity_of = |(a, b): &(String, String), (c, d): &(String, String)| {
            ticket_similarity(
                TicketText { title: a, description: b },
                TicketText { title: c, description: d },
            )
        };
        let (pay, cancel) = (cut("to pay an order."), cut("to cancel an order."));
        assert_eq!(pay.0, cancel.0, "the titles are the same");
        assert!(
            similarity_of(&pay, &cancel) < DEFAULT_THRESHOLD
                && similarity_of(&cancel, &pay) < DEFAULT_THRESHOLD
        );
        assert_eq!(similarity_of(&pay, &cut("to  pay an\nORDER. ")), 1.0, "apart from case and white space");
        // A title that is not truncated decides, whatever the description.
        let titled = |description: &str| ("Fix the login bug".to_owned(), description.to_owned());
        assert_eq!(similarity_of(&titled("It throws."), &titled(&cut("to pay").1)), 1.0);
        let short = |text: &str| (title_of(text), text.to_owned());
        assert_eq!(similarity_of(&short("Fix the login bug"), &short("fix login bug")), 1.0);
    }

    fn titles() -> impl Strategy<Value = String> {
        prop_oneof![
            ".{0,60}",
            proptest::collection::vec(
                proptest::sample::select(vec![
                    "add", "fix", "the", "Login", "logins", "page", "2", "3", "c++", "été,"
                ]),
                0..8
            )
            .prop_map(|words| words.join(" ")),
        ]
    }

    proptest! {
        #[test]
        fn similarity_is_symmetric_bounded_and_reflexive(a in titles(), b in titles()) {
            let forth = similarity(&a, &b);
            prop_assert_eq!(forth, similarity(&b, &a));
            prop_assert!((0.0..=1.0).contains(&forth), "{forth}");
            prop_assert_eq!(similarity(&a, &a), 1.0);
            prop_assert_eq!(similarity(&a, &normalize(&a)), 1.0);
            if normalize(&a) == normalize(&b) {
                prop_assert_eq!(forth, 1.0);
            }
        }

        #[test]
        fn case_punctuation_and_white_space_are_ignored(words in proptest::collection::vec("[a-z]{1,8}", 1..8)) {
            let plain = words.join(" ");
            let decorated = format!("  {}!", words.join(" - ").to_uppercase());
            prop_assert_eq!(similarity(&plain, &decorated), 1.0);
        }

        #[test]
        fn normalization_is_idempotent(title in titles()) {
            let once = normalize(&title);
            prop_assert_eq!(normalize(&once), once);
        }

        #[test]
        fn titles_with_nothing_in_common_have_similarity_zero(a in "[a-m]{1,9}( [a-m]{1,9}){0,4}", b in "[n-z]{1,9}( [n-z]{1,9}){0,4}") {
            prop_assert_eq!(similarity(&a, &b), 0.0);
        }
    }
}
