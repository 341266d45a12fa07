use warren_core::SandboxId;
use warren_face::link_keys::LinkKeys;

/// Nothing that is signed for one purpose is good for another.
const ACCESS: &str = "e2b access token";
const TRAFFIC: &str = "e2b traffic token";

/// The token of one sandbox's in-sandbox protocol, valid for as long as the sandbox exists. It
/// follows from the server's keys.
pub(crate) fn access_token(keys: &LinkKeys, sandbox: &SandboxId) -> String {
    keys.token(&[ACCESS, sandbox.as_str()])
}

pub(crate) fn is_access_token(text: &str, keys: &LinkKeys, sandbox: &SandboxId) -> bool {
    keys.is_token(&[ACCESS, sandbox.as_str()], text)
}

/// Every token that opens it: those of older keys do as well.
pub(crate) fn access_tokens(keys: &LinkKeys, sandbox: &SandboxId) -> Vec<String> {
    keys.tokens(&[ACCESS, sandbox.as_str()])
}

/// The token of every other port of a sandbox whose traffic is private.
pub(crate) fn traffic_token(keys: &LinkKeys, sandbox: &SandboxId) -> String {
    keys.token(&[TRAFFIC, sandbox.as_str()])
}

pub fn is_traffic_token(text: &str, keys: &LinkKeys, sandbox: &SandboxId) -> bool {
    keys.is_token(&[TRAFFIC, sandbox.as_str()], text)
}

#[cfg(test)]
mod tests {
    use warren_testkit::FakeRandom;

    use super::*;

    #[test]
    fn a_token_is_good_for_one_sandbox_and_one_purpose() {
        let (keys, others) = (LinkKeys::random(&FakeRandom::new(1)), LinkKeys::random(&FakeRandom::new(2)));
        let (this, that) = (SandboxId::from_random([1; 16]), SandboxId::from_random([2; 16]));
        let (access, traffic) = (access_token(&keys, &this), traffic_token(&keys, &this));
        assert!(is_access_token(&access, &keys, &this) && is_traffic_token(&traffic, &keys, &this));
        assert!(!is_access_token(&traffic, &keys, &this) && !is_traffic_token(&access, &keys, &this));
        assert!(!is_access_token(&access, &keys, &that) && !is_access_token(&access, &others, &this));
        assert!(access.bytes().all(|byte| byte.is_ascii_hexdigit()) && access.len() == 64);
    }
}
