//! What a client of the relay wants to push: the list of commands at the beginning of its request.
//!
//! Git itself enforces what may be pushed. The list is read for the reasons that the client is shown, and for events.

use crate::event::first_chars;

/// Longest list that is read.
pub(super) const MAX_BYTES: usize = 1024 * 1024;
/// Longest name of a reference in a message.
const MAX_NAME_CHARS: usize = 200;

/// One reference that a push changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub name: String,
    pub is_deletion: bool,
}

/// The list of commands of a push.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Commands {
    pub commands: Vec<Command>,
    /// Whether the client shows messages of the server.
    pub has_side_band: bool,
}

/// What the bytes so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed {
    Complete(Commands),
    /// The list continues.
    Partial,
    /// This is no push.
    Invalid,
}

/// Reads the lines up to the first flush packet (<https://git-scm.com/docs/gitprotocol-pack>, "Reference Update Request").
pub(super) fn parse(mut bytes: &[u8]) -> Parsed {
    let mut found = Commands::default();
    loop {
        let Some((head, rest)) = bytes.split_at_checked(4) else { return Parsed::Partial };
        let length = std::str::from_utf8(head).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        match length {
            Some(0) => return Parsed::Complete(found),
            Some(length @ 5..) => {
                let Some((line, rest)) = rest.split_at_checked(length - 4) else { return Parsed::Partial };
                found.add(line);
                bytes = rest;
            }
            _ => return Parsed::Invalid,
        }
    }
}

impl Commands {
    fn add(&mut self, line: &[u8]) {
        let mut parts = line.splitn(2, |byte| *byte == 0);
        let command = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        if let Some(capabilities) = parts.next() {
            let capabilities = String::from_utf8_lossy(capabilities);
            self.has_side_band |= capabilities.split_whitespace().any(|name| name == "side-band-64k");
        }
        let words: Vec<&str> = command.trim_end_matches('\n').splitn(3, ' ').collect();
        if let [_, new, name] = words[..] {
            let is_deletion = new.bytes().all(|byte| byte == b'0');
            self.commands.push(Command { name: name.to_owned(), is_deletion });
        }
    }
}

/// Why a command is refused. `None` if it may be executed. `branch` is the one of the task.
pub(super) fn refusal(command: &Command, branch: &str) -> Option<String> {
    let is_task_branch = command.name.strip_prefix("refs/heads/") == Some(branch);
    match (is_task_branch, command.is_deletion) {
        (true, false) => None,
        (true, true) => Some("the branch of the task cannot be deleted".to_owned()),
        (false, _) => Some(format!("only `{branch}`, the branch of the task, can be pushed")),
    }
}

/// A message that git shows with the prefix `remote:`.
pub(super) fn message(name: &str, reason: &str) -> Vec<u8> {
    let name = shown(name);
    let text = format!("\u{2}sunaba: {name} is not pushed: {reason}.\n");
    [format!("{:04x}", text.len() + 4).into_bytes(), text.into_bytes()].concat()
}

/// A name without control characters, for people.
pub(super) fn shown(name: &str) -> String {
    let plain: String = name.chars().filter(|character| !character.is_control()).collect();
    first_chars(&plain, MAX_NAME_CHARS).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(text: &str) -> Vec<u8> {
        format!("{:04x}{text}", text.len() + 4).into_bytes()
    }

    fn push() -> Vec<u8> {
        let (zero, one) = ("0".repeat(40), "1".repeat(40));
        let lines = [
            line(&format!("{zero} {one} refs/heads/main\0 report-status side-band-64k agent=git/2\n")),
            line(&format!("{one} {zero} refs/tags/v 1")),
            b"0000PACK".to_vec(),
        ];
        lines.concat()
    }

    #[test]
    fn commands_are_read_up_to_the_pack() {
        let Parsed::Complete(found) = parse(&push()) else { panic!("the list is complete") };
        let command = |name: &str, is_deletion| Command { name: name.to_owned(), is_deletion };
        assert_eq!(found.commands, [command("refs/heads/main", false), command("refs/tags/v 1", true)]);
        assert!(found.has_side_band);
        assert_eq!(parse(b"0000"), Parsed::Complete(Commands::default()), "a request that only probes");
        for invalid in ["0001", "0004", "zzzz", "-001"] {
            assert_eq!(parse(invalid.as_bytes()), Parsed::Invalid, "{invalid}");
        }
    }

    #[test]
    fn only_the_task_branch_can_be_changed_and_not_deleted() {
        for (name, is_deletion, allowed) in [
            ("refs/heads/feature/x", false, true),
            ("refs/heads/feature/x", true, false),
            ("refs/heads/feature/x/y", false, false),
            ("refs/heads/feature", false, false),
            ("refs/heads/main", false, false),
            ("refs/tags/feature/x", false, false),
            ("refs/sunaba/known/feature/x", false, false),
            ("feature/x", false, false),
            ("HEAD", false, false),
        ] {
            let command = Command { name: name.to_owned(), is_deletion };
            assert_eq!(refusal(&command, "feature/x").is_none(), allowed, "{name} {is_deletion}");
        }
    }

    #[test]
    fn message_is_one_line_of_the_side_band() {
        let message = String::from_utf8(message("refs/heads/\u{1b}[31mmain\n", "no")).unwrap();
        let (length, text) = message.split_at(4);
        assert_eq!(text, "\u{2}sunaba: refs/heads/[31mmain is not pushed: no.\n");
        assert_eq!(usize::from_str_radix(length, 16), Ok(message.len()));
    }

    proptest! {
        #[test]
        fn cut_list_is_partial_and_any_bytes_are_parsed(end in 0..200_usize, bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let push = push();
            let list = push.len() - b"PACK".len();
            let is_complete = matches!(parse(&push[..end.min(push.len())]), Parsed::Complete(_));
            prop_assert_eq!(is_complete, end >= list);
            parse(&bytes);
        }
    }
}
