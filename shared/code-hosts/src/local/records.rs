//! The stored records of pull requests.

use super::repository::Repository;
use crate::{Failure, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const PREFIX: &str = "refs/sunaba/pull/";

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub number: u64,
    /// Commit of `head`.
    pub head: String,
    /// Id of the blob of `record`.
    pub blob: String,
    pub content: Content,
}

/// **Invariant:** outlives the program that wrote it, so further fields need defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
    pub title: String,
    pub body: String,
    pub branch: String,
    pub base: String,
    /// Written before the base is changed. It counts when the base has the commit: the plane may stop in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<PlannedMerge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlannedMerge {
    /// The newest commit of the branch.
    pub head: String,
    /// The newest commit of the base after the merge.
    pub commit: String,
}

impl Record {
    pub(super) fn head_ref(&self) -> String {
        head_ref(self.number)
    }

    pub(super) fn record_ref(&self) -> String {
        record_ref(self.number)
    }
}

pub(super) fn head_ref(number: u64) -> String {
    format!("{PREFIX}{number}/head")
}

pub(super) fn record_ref(number: u64) -> String {
    format!("{PREFIX}{number}/record")
}

impl Repository {
    /// All pull requests, by number.
    pub(super) async fn records(&self) -> Result<Vec<Record>, Failure> {
        self.records_below(PREFIX).await
    }

    pub(super) async fn record(&self, number: u64) -> Result<Option<Record>, Failure> {
        Ok(self.records_below(&format!("{PREFIX}{number}/")).await?.pop())
    }

    /// Stores the content of a record and returns the id of the blob.
    pub(super) async fn store_content(&self, content: &Content) -> Result<String, Failure> {
        let json = serde_json::to_vec(content).expect("a record has string keys only");
        self.store_blob(&json).await
    }

    async fn records_below(&self, prefix: &str) -> Result<Vec<Record>, Failure> {
        let listed = self.git.text(&["for-each-ref", "--format=%(objectname) %(refname)", prefix]).await?;
        let mut objects: BTreeMap<u64, (Option<&str>, Option<&str>)> = BTreeMap::new();
        for (object, name) in listed.lines().filter_map(|line| line.split_once(' ')) {
            let Some((number, leaf)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/')) else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            let found = objects.entry(number).or_default();
            match leaf {
                "head" => found.0 = Some(object),
                "record" => found.1 = Some(object),
                _ => {}
            }
        }
        let complete = objects.into_iter().filter_map(|(number, (head, blob))| Some((number, head?, blob?)));
        let complete: Vec<(u64, &str, &str)> = complete.collect();
        let contents = self.blobs(complete.iter().map(|(.., blob)| *blob)).await?;
        let records = complete.into_iter().zip(contents).map(|((number, head, blob), content)| {
            let content = serde_json::from_slice(&content).map_err(|error| {
                let message = format!("{} cannot be read: {error}", record_ref(number));
                Failure::new(Reason::Invalid, message)
            })?;
            Ok(Record { number, head: head.to_owned(), blob: blob.to_owned(), content })
        });
        records.collect()
    }

    /// The contents of objects, in one run of git.
    pub(super) async fn blobs<'a>(
        &self,
        ids: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let input: String = ids.map(|id| format!("{id}\n")).collect();
        if input.is_empty() {
            return Ok(Vec::new());
        }
        let output = self.git.run(&["cat-file", "--batch"], input.as_bytes(), &[]).await?;
        let (mut rest, mut contents) = (&output.stdout[..], Vec::new());
        while !rest.is_empty() {
            let (content, after) = next_object(rest).ok_or_else(|| output.failure(&["cat-file"]))?;
            contents.push(content.to_vec());
            rest = after;
        }
        let expected = input.lines().count();
        (contents.len() == expected).then_some(contents).ok_or_else(|| output.failure(&["cat-file"]))
    }
}

/// `<id> <type> <size>`, a line break, the content, a line break.
fn next_object(output: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = output.iter().position(|&byte| byte == b'\n')?;
    let (header, rest) = (std::str::from_utf8(&output[..end]).ok()?, &output[end + 1..]);
    let size: usize = header.rsplit(' ').next()?.parse().ok()?;
    let content = rest.get(..size)?;
    Some((content, rest.get(size + 1..)?))
}
