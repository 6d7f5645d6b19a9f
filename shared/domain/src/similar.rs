//! Whether two tickets ask for the same, by their titles, and by their descriptions where a title is only how one begins.
//!
//! Deliberately absent: a model of meaning. OmoiOS compared embeddings; this compares spellings, which costs nothing,
//! needs nobody's key, and can be explained to whoever is told that their ticket is a duplicate. It errs on the side of
//! letting a ticket through, because a duplicate is annoying and work that is silently not done is worse.

use crate::ticket::{TITLE_OF_DESCRIPTION_CHARS, title_of};

/// A ticket whose title is at least this similar to another's is taken for a duplicate, unless the sender says otherwise.
pub const DEFAULT_THRESHOLD: f64 = 0.85;

/// A title without what does not matter: case, punctuation, blanks, and a few words. Accents are kept.
///
/// `+` and `#` stay at the end of a word, because C, C++ and C# are not the same. A title of nothing but such things
/// stays as it is.
pub fn normalise(title: &str) -> String {
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
    let telling: Vec<&str> = all.iter().copied().filter(|word| !STOP_WORDS.contains(word)).collect();
    match (telling.is_empty(), all.is_empty()) {
        (false, _) => telling.join(" "),
        (true, false) => all.join(" "),
        (true, true) => lower.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// How similar two titles are, from 0 (nothing in common) to 1 (the same, once normalised).
///
/// The mean of how many neighbouring words and how many runs of three characters they share (Sørensen–Dice). Neighbours
/// rather than single words, so that "convert JSON to YAML" is not "convert YAML to JSON"; characters, so that a slip of
/// the pen counts for little. Titles whose numbers differ are never nearly the same: "part 1" and "part 2" are two
/// pieces of work.
pub fn similarity(a: &str, b: &str) -> f64 {
    let (a, b) = (normalise(a), normalise(b));
    if a == b {
        return 1.0;
    }
    let mean = (dice(neighbours(&a), neighbours(&b)) + dice(trigrams(&a), trigrams(&b))) / 2.0;
    if numbers(&a) == numbers(&b) { mean } else { mean * OTHER_NUMBERS }
}

/// What somebody asks for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// In a few words.
    pub title: &'a str,
    /// In full.
    pub description: &'a str,
}

/// How much two wishes are the same, from 0 to 1: as much as their titles, unless one of them is cut from a longer
/// description. Such a title says how the text begins and not what is asked for, so the texts have to be the same too,
/// but for case and blanks.
pub fn likeness(one: Wanted<'_>, other: Wanted<'_>) -> f64 {
    let titles = similarity(one.title, other.title);
    let says_all = !one.is_cut() && !other.is_cut();
    if says_all || one.words().eq(other.words()) { titles } else { titles * OTHER_TEXTS }
}

impl<'a> Wanted<'a> {
    /// Whether the title is the beginning of the description, and the description goes on.
    fn is_cut(&self) -> bool {
        let goes_on = self.description.trim().chars().nth(TITLE_OF_DESCRIPTION_CHARS).is_some();
        goes_on && self.title == title_of(self.description)
    }

    fn words(self) -> impl Iterator<Item = String> + 'a {
        self.description.split_whitespace().map(str::to_lowercase)
    }
}

/// Words that say nothing of what is to be done. No `on`, `off`, `from`, `not`: those do.
const STOP_WORDS: [&str; 9] = ["a", "an", "and", "for", "in", "of", "please", "the", "to"];

/// Keeps titles with other numbers below any threshold that anybody would set.
const OTHER_NUMBERS: f64 = 0.75;

/// The same for descriptions that begin alike and are not the same.
const OTHER_TEXTS: f64 = 0.75;

/// Marks that stand after the letter that they belong to, where a keyboard writes é as two characters.
fn is_accent(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

/// Each word with the one after it; the first and the last also with the edge. A plural is its singular here.
fn neighbours(title: &str) -> Vec<(&str, &str)> {
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

/// Runs of three characters, also over the edges, so that a title of one letter has some.
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

/// Twice what they share, of all that they have; what occurs twice counts twice.
fn dice<T: Ord>(mut a: Vec<T>, mut b: Vec<T>) -> f64 {
    a.sort_unstable();
    b.sort_unstable();
    let (mut left, mut right) = (a.iter().peekable(), b.iter().peekable());
    let mut shared = 0;
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        match one.cmp(other) {
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
    fn what_does_not_matter_is_gone() {
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
            assert_eq!(normalise(title), expected, "{title:?}");
        }
    }

    #[test]
    fn duplicates_are_told_from_neighbours() {
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
    fn descriptions_that_begin_alike_are_not_the_same_wish() {
        let start = "As a customer of the shop who is signed in and has at least one order I want to be able, on my page, ";
        assert!(start.chars().count() > TITLE_OF_DESCRIPTION_CHARS);
        let cut = |rest: &str| {
            let description = format!("{start}{rest}");
            (title_of(&description), description)
        };
        let likeness = |(a, b): &(String, String), (c, d): &(String, String)| {
            likeness(Wanted { title: a, description: b }, Wanted { title: c, description: d })
        };
        let (pay, cancel) = (cut("to pay an order."), cut("to cancel an order."));
        assert_eq!(pay.0, cancel.0, "the titles are the same");
        assert!(likeness(&pay, &cancel) < DEFAULT_THRESHOLD && likeness(&cancel, &pay) < DEFAULT_THRESHOLD);
        assert_eq!(likeness(&pay, &cut("to  pay an\nORDER. ")), 1.0, "but for case and blanks");
        // A title of its own says what is asked for, whatever is said beside it.
        let titled = |description: &str| ("Fix the login bug".to_owned(), description.to_owned());
        assert_eq!(likeness(&titled("It throws."), &titled(&cut("to pay").1)), 1.0);
        let short = |text: &str| (title_of(text), text.to_owned());
        assert_eq!(likeness(&short("Fix the login bug"), &short("fix login bug")), 1.0);
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
        fn similarity_is_symmetric_bounded_and_one_for_the_same(a in titles(), b in titles()) {
            let forth = similarity(&a, &b);
            prop_assert_eq!(forth, similarity(&b, &a));
            prop_assert!((0.0..=1.0).contains(&forth), "{forth}");
            prop_assert_eq!(similarity(&a, &a), 1.0);
            prop_assert_eq!(similarity(&a, &normalise(&a)), 1.0);
            if normalise(&a) == normalise(&b) {
                prop_assert_eq!(forth, 1.0);
            }
        }

        #[test]
        fn case_punctuation_and_blanks_change_nothing(words in proptest::collection::vec("[a-z]{1,8}", 1..8)) {
            let plain = words.join(" ");
            let dressed = format!("  {}!", words.join(" - ").to_uppercase());
            prop_assert_eq!(similarity(&plain, &dressed), 1.0);
        }

        #[test]
        fn what_is_normal_stays_so(title in titles()) {
            let once = normalise(&title);
            prop_assert_eq!(normalise(&once), once);
        }

        #[test]
        fn nothing_in_common_is_nothing(a in "[a-m]{1,9}( [a-m]{1,9}){0,4}", b in "[n-z]{1,9}( [n-z]{1,9}){0,4}") {
            prop_assert_eq!(similarity(&a, &b), 0.0);
        }
    }
}
