//! Names in documents: what a page cites exists, so that a rename cannot leave it behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Decision records describe the past and are not edited; the changelog too. One page lists words that are gone.
const HISTORICAL: [&str; 3] = ["docs/decisions", "docs/glossary-replaced-words.md", "CHANGELOG.md"];

/// Folders of the crates, by the name that code uses.
const CRATES: [(&str, &str); 12] = [
    ("app", "shared/app"),
    ("client", "shared/client"),
    ("code_hosts", "shared/code-hosts"),
    ("codegen", "infra/codegen"),
    ("contract", "shared/contract"),
    ("domain", "shared/domain"),
    ("edge", "shared/edge"),
    ("lambda_host", "shared/lambda-host"),
    ("local", "local/src"),
    ("providers", "shared/providers"),
    ("store", "shared/store"),
    ("worker", "worker/src"),
];

#[test]
fn names_cited_in_documents_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = Sources::read(root);
    let mut missing = Vec::new();
    for page in sources.pages.iter().filter(|page| !HISTORICAL.iter().any(|past| page.starts_with(past))) {
        let text = fs::read_to_string(root.join(page)).unwrap();
        for cited in citations(&text) {
            if !sources.have(root, Path::new(page), cited) {
                missing.push(format!("{page} cites `{cited}`"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "These names do not exist any more; correct the page:\n{}",
        missing.join("\n")
    );
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut broken = Vec::new();
    for page in Sources::read(root).pages {
        let text = fs::read_to_string(root.join(&page)).unwrap();
        let folder = root.join(&page).parent().unwrap().to_owned();
        for target in
            text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
        {
            let path = target.split('#').next().unwrap();
            if !path.is_empty() && !path.contains("://") && !folder.join(path).exists() {
                broken.push(format!("{page} links to {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "These links are broken:\n{}", broken.join("\n"));
}

/// Texts between backticks, outside of code blocks.
fn citations(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.lines().flat_map(|line| line.split('`').skip(1).step_by(2))).collect()
}

/// The words of the sources, and the pages.
struct Sources {
    /// Identifiers and module names, by crate folder.
    words: Vec<(&'static str, BTreeSet<String>)>,
    pages: Vec<String>,
    /// Identifiers of all Rust files.
    identifiers: BTreeSet<String>,
}

impl Sources {
    fn read(root: &Path) -> Self {
        let mut files = Vec::new();
        walk(root, root, &mut files);
        let mut words: Vec<_> = CRATES.iter().map(|(_, folder)| (*folder, BTreeSet::new())).collect();
        let (mut pages, mut identifiers) = (Vec::new(), BTreeSet::new());
        for file in files {
            let name = file.to_string_lossy().into_owned();
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("md") => pages.push(name),
                Some("rs") => {
                    let text = fs::read_to_string(root.join(&file)).unwrap();
                    identifiers.extend(text.split(|c: char| !is_word(c)).map(str::to_owned));
                    for (folder, words) in words.iter_mut().filter(|(folder, _)| file.starts_with(folder)) {
                        let module = file.strip_prefix(*folder).unwrap();
                        words.extend(module.iter().map(|part| part.to_string_lossy().replace(".rs", "")));
                        words.extend(text.split(|c: char| !is_word(c)).map(str::to_owned));
                    }
                }
                _ => {}
            }
        }
        pages.sort();
        Self { words, pages, identifiers }
    }

    /// Whether a citation exists, as far as it is a test, a file, or a path in a crate. Anything else is prose.
    fn have(&self, root: &Path, page: &Path, cited: &str) -> bool {
        if cited.chars().any(|c| c.is_whitespace() || "<>{}*…|\"'$&=,@".contains(c)) {
            return true;
        }
        let extension = cited.rsplit_once('.').map_or("", |(_, extension)| extension);
        if ["rs", "ts", "tsx", "yaml", "py", "json"].contains(&extension) && cited.contains('/') {
            let from_page = page.parent().unwrap().join(cited);
            let places = [
                PathBuf::from(cited),
                from_page,
                Path::new("shared").join(cited),
                Path::new("web/src").join(cited),
            ];
            return places.iter().any(|path| root.join(path).exists());
        }
        if let Some((first, rest)) = cited.split_once("::")
            && let Some((_, folder)) = CRATES.iter().find(|(name, _)| *name == first)
        {
            let words = &self.words.iter().find(|(found, _)| found == folder).unwrap().1;
            return rest.split("::").all(|part| words.contains(identifier(part)) || part.is_empty());
        }
        let is_test = cited.matches('_').count() >= 4
            && cited.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
        !is_test || self.identifiers.contains(cited)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn identifier(text: &str) -> &str {
    text.split(|c: char| !is_word(c)).next().unwrap()
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if ["target", "node_modules", ".git", ".aws-sam", ".sunaba", "dist", "test-results"]
            .contains(&name.as_str())
        {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, files);
        } else {
            files.push(path.strip_prefix(root).unwrap().to_owned());
        }
    }
}
