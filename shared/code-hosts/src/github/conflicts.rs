//! Estimated conflicts: files that both sides have changed. GitHub's API has no trial merge of two branches, and a function
//! on AWS has no git. Whether a pull request merges, GitHub says in `mergeable`.

use super::GitHub;
use crate::change::{ConflictingFile, ConflictingPair, Conflicts};
use crate::{Comparison, Failure};
use std::collections::BTreeSet;

/// What two sides have changed since their newest common commit.
struct Sides {
    head: BTreeSet<String>,
    base: BTreeSet<String>,
}

impl GitHub {
    pub(super) async fn estimated_conflicts(
        &self,
        base: &str,
        heads: &[String],
    ) -> Result<Conflicts, Failure> {
        let mut all: Vec<Sides> = Vec::new();
        for head in heads {
            let compared = self.comparison(base, head).await?;
            let of_base = match compared.behind {
                0 => BTreeSet::new(),
                _ => paths(self.comparison(head, base).await?),
            };
            all.push(Sides { head: paths(compared), base: of_base });
        }
        let mut pairs = Vec::new();
        for (one, sides) in all.iter().enumerate() {
            pairs.push(pair(one, None, &sides.head, &sides.base));
            let others = all.iter().enumerate().skip(one + 1);
            pairs.extend(others.map(|(other, second)| pair(one, Some(other), &sides.head, &second.head)));
        }
        pairs.retain(|pair| !pair.files.is_empty());
        Ok(Conflicts { estimated: true, pairs })
    }
}

/// Every path that is changed, or was before a rename.
fn paths(compared: Comparison) -> BTreeSet<String> {
    let of_file = |file: crate::FileChange| [Some(file.path), file.previous_path];
    compared.files.into_iter().flat_map(of_file).flatten().collect()
}

fn pair(
    one: usize,
    other: Option<usize>,
    ours: &BTreeSet<String>,
    theirs: &BTreeSet<String>,
) -> ConflictingPair {
    let files = ours.intersection(theirs).map(|path| ConflictingFile { path: path.clone(), hunks: None });
    ConflictingPair { one, other, files: files.collect() }
}
