//! Signatures of webhooks: HMAC with SHA-256 over the body, as it was sent.
//! <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries>

use aws_lc_rs::hmac;
use domain::OrgId;

/// Before the digits of a signature.
const PREFIX: &str = "sha256=";

/// Who has signed a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// `None` if the secret is that of every org.
    pub org: Option<OrgId>,
}

/// The first of the secrets with which `body` was signed. Each comparison takes the same time for every signature.
pub fn signer(secrets: &[(Option<&OrgId>, &str)], body: &[u8], signature: &str) -> Option<Signer> {
    let signature = from_hex(signature.strip_prefix(PREFIX)?)?;
    let has_signed = |secret: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        hmac::verify(&key, body, &signature).is_ok()
    };
    // With an empty secret, anyone could sign.
    let mut secrets = secrets.iter().filter(|(_, secret)| !secret.trim().is_empty());
    let (org, _) = secrets.find(|(_, secret)| has_signed(secret.trim()))?;
    Some(Signer { org: org.cloned() })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|value| u8::try_from(value).unwrap_or(0))).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"Hello, World!";
    /// From GitHub's documentation, for the secret below.
    const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    const SECRET: &str = "It's a Secret to Everybody";

    fn signed_by(secrets: &[(Option<&OrgId>, &str)], signature: &str) -> Option<Signer> {
        signer(secrets, BODY, signature)
    }

    #[test]
    fn signature_of_the_documentation_is_accepted() {
        assert_eq!(signed_by(&[(None, SECRET)], SIGNATURE), Some(Signer { org: None }));
        assert_eq!(signer(&[(None, SECRET)], b"Hello, World?", SIGNATURE), None);
    }

    #[test]
    fn org_of_the_secret_is_found() {
        let (acme, other) = (OrgId::parse("acme").unwrap(), OrgId::parse("other").unwrap());
        let secrets = [(None, "shared"), (Some(&other), "other"), (Some(&acme), SECRET)];
        assert_eq!(signed_by(&secrets, SIGNATURE), Some(Signer { org: Some(acme.clone()) }));
        assert_eq!(signed_by(&secrets[..2], SIGNATURE), None);
    }

    #[test]
    fn other_signatures_are_refused() {
        let upper = SIGNATURE.to_uppercase();
        for signature in [
            "",
            "sha256=",
            "sha256=7",
            "sha256=zz",
            "sha256=757107ea",
            "sha1=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
            upper.as_str(),
            &SIGNATURE["sha256=".len()..],
        ] {
            assert_eq!(signed_by(&[(None, SECRET)], signature), None, "{signature}");
        }
        for secrets in [&[][..], &[(None, "")], &[(None, " ")], &[(None, "another")]] {
            assert_eq!(signed_by(secrets, SIGNATURE), None);
        }
        // Signed with an empty secret.
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"");
        let digits: String =
            hmac::sign(&key, BODY).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(signed_by(&[(None, ""), (None, " ")], &format!("sha256={digits}")), None);
    }
}
