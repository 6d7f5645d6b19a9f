//! The URL to which a request is forwarded.

use http::Uri;
use url::Url;

/// Longest URL that is forwarded.
const MAX_BYTES: usize = 16 * 1024;

/// The URL for a request below `prefix`. `None` if it is not below the prefix, or would leave the upstream's base path.
pub(super) fn upstream_url(prefix: &str, upstream: &Url, request: &Uri) -> Option<Url> {
    let rest = request.path().strip_prefix(prefix)?;
    if !(rest.is_empty() || rest.starts_with('/')) || !is_plain(rest) || rest.len() > MAX_BYTES {
        return None;
    }
    let base = upstream.path().trim_end_matches('/');
    let mut url = upstream.clone();
    url.set_path(&format!("{base}{rest}"));
    url.set_query(request.query());
    url.set_fragment(None);
    let path = url.path().strip_prefix(base)?;
    (path.is_empty() || path.starts_with('/')).then_some(url)
}

/// Whether a request is for `prefix` or a path below it.
pub(super) fn is_below(prefix: &str, request: &Uri) -> bool {
    let rest = request.path().strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether no segment is one that a server may resolve against its parent, in any encoding.
fn is_plain(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    // Encoded twice, a server that decodes twice would see it.
    let encoded = ["%2e", "%2f", "%5c", "%25", "%00"];
    !lower.contains(['\\', ';'])
        && !encoded.iter().any(|encoded| lower.contains(encoded))
        && !lower.split('/').any(|segment| segment == "." || segment == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_base_path() {
        for (path, forwarded) in [
            (
                "/git/info/refs?service=git-upload-pack",
                Some("/acme/shop.git/info/refs?service=git-upload-pack"),
            ),
            ("/git", Some("/acme/shop.git")),
            ("/git/", Some("/acme/shop.git/")),
            ("/git/a%20b/v1...v2/.hidden", Some("/acme/shop.git/a%20b/v1...v2/.hidden")),
            ("/git-other/info/refs", None),
            ("/gitinfo", None),
            ("/other", None),
            ("/git/../other.git/info/refs", None),
            ("/git/..", None),
            ("/git/./x", None),
            ("/git/%2e%2e/other.git", None),
            ("/git/.%2E/other.git", None),
            ("/git/..%2fother.git", None),
            ("/git/..%5Cother.git", None),
            ("/git/%252e%252e/other.git", None),
            ("/git/..;/other.git", None),
            ("/git/x%00", None),
        ] {
            let base = Url::parse("https://github.com/acme/shop.git").unwrap();
            let url = upstream_url("/git", &base, &path.parse().unwrap());
            let expected = forwarded.map(|path| format!("https://github.com{path}"));
            assert_eq!(url.map(String::from), expected, "{path}");
        }
    }

    #[test]
    fn empty_base_path_forwards_the_rest() {
        for base in ["https://api.example", "https://api.example/"] {
            let base = Url::parse(base).unwrap();
            let url = |path: &str| upstream_url("/model", &base, &path.parse().unwrap()).map(String::from);
            assert_eq!(
                url("/model/v1/messages?beta=true").unwrap(),
                "https://api.example/v1/messages?beta=true"
            );
            assert_eq!(url("/model").unwrap(), "https://api.example/");
            assert_eq!(url("/model//evil.example/v1").unwrap(), "https://api.example//evil.example/v1");
        }
    }
}
