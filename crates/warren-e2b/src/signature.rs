//! Signed addresses of files: a client with one may read or write one path of one sandbox, without
//! knowing its token.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};

const VERSION: &str = "v1_";

/// The operation that a signature allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
}

/// The signature of a path. `path` and `user` are as the address has them, `expiration` in seconds
/// since 1970 only where the address has one. Signatures are to be compared in constant time.
pub fn sign(path: &str, operation: Operation, user: &str, token: &str, expiration: Option<i64>) -> String {
    let operation = match operation {
        Operation::Read => "read",
        Operation::Write => "write",
    };
    let mut signed = format!("{path}:{operation}:{user}:{token}");
    if let Some(expiration) = expiration {
        signed.push(':');
        signed.push_str(&expiration.to_string());
    }
    format!("{VERSION}{}", STANDARD_NO_PAD.encode(Sha256::digest(signed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";

    #[test]
    fn a_signature_is_the_one_that_clients_make() {
        let signature = sign("hello.txt", Operation::Read, "user", TOKEN, None);
        assert_eq!(signature, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
    }

    #[test]
    fn everything_that_is_signed_counts() {
        let all = [
            sign("a", Operation::Read, "user", TOKEN, None),
            sign("b", Operation::Read, "user", TOKEN, None),
            sign("a", Operation::Write, "user", TOKEN, None),
            sign("a", Operation::Read, "", TOKEN, None),
            sign("a", Operation::Read, "user", "other", None),
            sign("a", Operation::Read, "user", TOKEN, Some(1)),
            sign("a", Operation::Read, "user", TOKEN, Some(2)),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
