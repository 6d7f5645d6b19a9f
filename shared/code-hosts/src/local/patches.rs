//! Patches of the files of a comparison, read from one run of `git diff`. Files may be large, so no more is kept
//! of a patch than its limit.

use super::compare::Entry;
use super::repository::Repository;
use crate::change::cut_patch;
use crate::{Failure, MAX_PATCH_BYTES, Reason};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};

/// A patch, and whether it was cut.
type Patch = (Option<String>, bool);

const ARGUMENTS: [&str; 9] = [
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--find-renames",
    "--ignore-submodules=none",
    "-O/dev/null",
    "--patch",
    "--unified=3",
];

impl Repository {
    /// The patches of these entries, in their order.
    pub(super) async fn patches(
        &self,
        entries: &[Entry],
        common: &str,
        head: &str,
    ) -> Result<Vec<Patch>, Failure> {
        let mut child = self.git.start(&[&ARGUMENTS[..], &[common, head]].concat())?;
        let unreadable = || Failure::new(Reason::Unreachable, "the patches could not be read");
        let mut output = BufReader::new(child.stdout.take().ok_or_else(unreadable)?);
        // Dropping the child ends git if there is more than what is needed.
        let read = async { read(&mut output, entries).await.map_err(|_| unreadable()) };
        self.git.deadline(read).await
    }
}

async fn read(output: &mut (impl AsyncBufRead + Unpin), entries: &[Entry]) -> std::io::Result<Vec<Patch>> {
    let mut sections = Sections::default();
    // A change of the type of a file, such as from a file to a link, is one entry and two sections.
    let counts: Vec<usize> = entries.iter().map(|entry| if entry.letter == 'T' { 2 } else { 1 }).collect();
    let wanted: usize = counts.iter().sum();
    let mut line = Vec::new();
    while read_line(output, &mut line).await? {
        if line.starts_with(b"diff --git ") {
            if sections.0.len() == wanted {
                break;
            }
            sections.0.push(Section::default());
        } else {
            sections.add(&line);
        }
    }
    let mut sections = sections.0.into_iter();
    Ok(counts.into_iter().map(|count| patch(sections.by_ref().take(count))).collect())
}

/// Joins the sections of an entry.
fn patch(sections: impl Iterator<Item = Section>) -> Patch {
    let mut joined = Section::default();
    for section in sections {
        joined.hunks.extend(section.hunks);
        joined.is_cut |= section.is_cut;
    }
    if joined.hunks.is_empty() {
        return (None, joined.is_cut);
    }
    let (text, is_cut) = cut_patch(String::from_utf8_lossy(&joined.hunks).into_owned());
    (Some(text.trim_end_matches('\n').to_owned()), is_cut || joined.is_cut)
}

#[derive(Default)]
struct Sections(Vec<Section>);

#[derive(Default)]
struct Section {
    /// Headers before the first hunk are left out.
    hunks: Vec<u8>,
    is_cut: bool,
}

impl Sections {
    fn add(&mut self, line: &[u8]) {
        let Some(section) = self.0.last_mut() else { return };
        if section.hunks.is_empty() && !line.starts_with(b"@@") {
            return;
        }
        if section.hunks.len() + line.len() > MAX_PATCH_BYTES {
            section.is_cut = true;
        }
        if !section.is_cut {
            section.hunks.extend_from_slice(line);
        }
    }
}

/// Reads a line with its end. Of a longer line than any patch may be, only the beginning is kept. Returns false at
/// the end of the output.
async fn read_line(output: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    loop {
        let chunk = output.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = chunk.iter().position(|&byte| byte == b'\n').map(|position| position + 1);
        let used = end.unwrap_or(chunk.len());
        let room = (MAX_PATCH_BYTES + 1).saturating_sub(line.len());
        line.extend_from_slice(&chunk[..used.min(room)]);
        output.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}
