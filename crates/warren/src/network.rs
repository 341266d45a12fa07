//! Network policies, as people write them on the command line and read them there.

use clap::Args;
use warren_core::network::{RuleError, Why};
use warren_core::{ByteSize, NetworkMode, NetworkPolicy, NetworkRule, SecretName};
use warren_wire::api::{self, NetworkLogEntry, NetworkRequest};

use crate::word::{parse_word, word};

/// Flags of every command that makes a sandbox.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct NetworkFlags {
    /// Where it may go: none, public (the Internet, nothing private), allow (only what --allow
    /// says), ask or learn. Rules may follow: allow=pypi.org,*.pythonhosted.org [default: public
    /// where the machine can, else none]
    #[arg(long, value_name = "MODE[=RULE,…]", value_parser = parse_choice)]
    net: Option<NetworkChoice>,
    #[command(flatten)]
    rules: Rules,
}

/// The rules beside a mode.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Rules {
    /// Open a host, *.host, address or network, with :PORT if wanted (may be repeated)
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    allow: Vec<NetworkRule>,
    /// Close one, even if another rule opens it (may be repeated)
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    deny: Vec<NetworkRule>,
    /// Put this secret into requests to the hosts it is for; the sandbox never sees it (may be
    /// repeated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    secret: Vec<SecretName>,
}

/// The value of `--net`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NetworkChoice {
    /// The default of the machine or the server.
    Auto,
    Mode(NetworkMode, Vec<NetworkRule>),
}

impl NetworkFlags {
    /// The policy that was asked for; `None` leaves it to the machine or the server.
    pub(crate) fn policy(&self) -> Option<NetworkPolicy> {
        self.rules.policy(self.net.as_ref())
    }
}

impl Rules {
    /// These rules in the mode that was asked for, or else in the mode that they imply.
    pub(crate) fn policy(&self, choice: Option<&NetworkChoice>) -> Option<NetworkPolicy> {
        let said = match choice {
            Some(NetworkChoice::Mode(mode, rules)) => Some((*mode, rules.clone())),
            Some(NetworkChoice::Auto) | None => None,
        };
        let implied = || {
            // A list means that list; a denial or a secret alone means the rest of the Internet.
            let some = !self.deny.is_empty() || !self.secret.is_empty();
            let open = some.then_some(NetworkMode::Public);
            if self.allow.is_empty() { open } else { Some(NetworkMode::Allow) }
        };
        let (mode, mut allow) = said.or_else(|| implied().map(|mode| (mode, Vec::new())))?;
        allow.extend(self.allow.iter().cloned());
        let (deny, secrets) = (self.deny.clone(), self.secret.clone());
        Some(NetworkPolicy { allow, deny, secrets, ..NetworkPolicy::of(mode) })
    }
}

/// A policy as a server takes it. Limits are the server's.
pub(crate) fn request(policy: &NetworkPolicy) -> NetworkRequest {
    let texts = |rules: &[NetworkRule]| rules.iter().map(ToString::to_string).collect();
    NetworkRequest {
        mode: match policy.mode {
            NetworkMode::None => api::NetworkMode::None,
            NetworkMode::Public => api::NetworkMode::Public,
            NetworkMode::Allow => api::NetworkMode::Allow,
            NetworkMode::Ask => api::NetworkMode::Ask,
            NetworkMode::Learn => api::NetworkMode::Learn,
        },
        allow: texts(&policy.allow),
        deny: texts(&policy.deny),
        secrets: policy.secrets.iter().map(ToString::to_string).collect(),
        ..NetworkRequest::default()
    }
}

/// `MODE`, or a mode that has a list with its rules: `allow=RULE,RULE`.
pub(crate) fn parse_choice(text: &str) -> Result<NetworkChoice, String> {
    let (word, rules) = text.split_once('=').map_or((text, None), |(word, rules)| (word, Some(rules)));
    if word == "auto" {
        return rules
            .is_none()
            .then_some(NetworkChoice::Auto)
            .ok_or_else(|| "auto takes no rules".to_owned());
    }
    let mode = parse_word(word)
        .map_err(|_| "write auto, none, public, allow, allow=RULE,RULE, ask or learn".to_owned())?;
    let rules = rules.unwrap_or_default().split(',').filter(|rule| !rule.is_empty());
    let rules = rules.map(|rule| rule.parse().map_err(|error: RuleError| error.to_string()));
    let rules: Vec<NetworkRule> = rules.collect::<Result<_, _>>()?;
    if !rules.is_empty() && !matches!(mode, NetworkMode::Allow | NetworkMode::Ask) {
        return Err(format!("{word} takes no rules: write allow=… or ask=…"));
    }
    Ok(NetworkChoice::Mode(mode, rules))
}

/// `host:port (address)`, as far as these are known.
pub(crate) fn destination(host: Option<&str>, address: Option<&str>, port: Option<u16>) -> String {
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    match (host, address) {
        (Some(host), Some(address)) if host != address => format!("{host}{port} ({address})"),
        (_, Some(address)) if address.contains(':') => format!("[{address}]{port}"),
        (_, Some(address)) => format!("{address}{port}"),
        (Some(host), None) => format!("{host}{port}"),
        (None, None) => format!("?{port}"),
    }
}

/// An entry of the log as one line.
pub(crate) fn line(entry: &NetworkLogEntry) -> String {
    let to = destination(entry.host.as_deref(), entry.address.as_deref(), entry.port);
    let (verdict, protocol) = (word(&entry.verdict), word(&entry.protocol));
    let mut text = format!("{}  {verdict:<7}  {protocol:<4}  {to}  {}", entry.at, entry.rule);
    if let Some(process) = &entry.process {
        text.push_str(&format!("  by {process}"));
    }
    if entry.count > 1 {
        text.push_str(&format!("  ×{}", entry.count));
    }
    text
}

/// The last host that no rule allowed, unless it was allowed since.
#[derive(Debug, Default)]
pub(crate) struct LastRefusal(Option<String>);

impl LastRefusal {
    pub(crate) fn saw(&mut self, entry: &NetworkLogEntry) {
        let target = entry.host.as_ref().or(entry.address.as_ref());
        match entry.verdict {
            api::NetworkVerdict::Denied if entry.rule == Why::NotListed.to_string() => {
                self.0 = target.cloned()
            }
            api::NetworkVerdict::Allowed if self.0.as_ref() == target => self.0 = None,
            _ => {}
        }
    }

    pub(crate) fn host(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// A sandbox's network, a name and a text for each thing that there is.
pub(crate) fn describe(status: &api::NetworkStatus) -> Vec<(&'static str, String)> {
    let policy = &status.policy;
    let mut rows = vec![("mode", word(&policy.mode))];
    let lists = [("allow", &policy.allow), ("deny", &policy.deny), ("secrets", &policy.secrets)];
    for (name, list) in lists {
        rows.extend((!list.is_empty()).then(|| (name, list.join(", "))));
    }
    for grant in &policy.grants {
        let name = match grant.effect {
            api::NetworkEffect::Allow => "allowed",
            api::NetworkEffect::Deny => "denied",
        };
        let until = grant.until.as_deref().map(|until| format!(", until {until}")).unwrap_or_default();
        rows.push((name, format!("{} (by {}{until})", grant.rule, grant.by)));
    }
    rows.extend((!status.addresses.is_empty()).then(|| ("addresses", status.addresses.join(", "))));
    if let Some(usage) = &status.usage {
        rows.push(("received", ByteSize(usage.received_bytes).to_string()));
        rows.push(("sent", ByteSize(usage.sent_bytes).to_string()));
        rows.push(("proxied", format!("{} now", usage.proxied)));
        rows.push(("refused", usage.denied.to_string()));
    }
    rows.extend((status.pending > 0).then(|| ("waiting", format!("{} for an answer", status.pending))));
    rows
}

/// The policy as flags of `warren create` and `warren run`.
pub(crate) fn flags(policy: &NetworkRequest) -> String {
    let mut text = format!("--net {}", word(&policy.mode));
    for (flag, list) in [("--allow", &policy.allow), ("--deny", &policy.deny), ("--secret", &policy.secrets)]
    {
        for item in list {
            // A star is the shell's unless it is quoted.
            let quote = if item.contains('*') { "'" } else { "" };
            text.push_str(&format!(" {flag} {quote}{item}{quote}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: NetworkFlags,
    }

    fn policy(words: &[&str]) -> Option<NetworkPolicy> {
        let words = ["x"].iter().chain(words);
        Line::try_parse_from(words).unwrap().flags.policy()
    }

    fn mode(words: &[&str]) -> Option<NetworkMode> {
        policy(words).map(|policy| policy.mode)
    }

    #[test]
    fn flags_say_what_they_look_like() {
        assert_eq!(policy(&[]), None);
        assert_eq!(policy(&["--net", "auto"]), None);
        for (word, expected) in [
            ("none", NetworkMode::None),
            ("public", NetworkMode::Public),
            ("allow", NetworkMode::Allow),
            ("ask", NetworkMode::Ask),
            ("learn", NetworkMode::Learn),
        ] {
            assert_eq!(mode(&["--net", word]), Some(expected));
        }
        let listed =
            policy(&["--net", "allow=a.example,*.b.example:443", "--allow", "192.0.2.0/24"]).unwrap();
        let texts: Vec<String> = listed.allow.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["a.example", "*.b.example:443", "192.0.2.0/24"]);
    }

    #[test]
    fn rules_alone_imply_a_mode() {
        assert_eq!(mode(&["--allow", "a.example"]), Some(NetworkMode::Allow));
        assert_eq!(mode(&["--allow", "a.example", "--deny", "b.a.example"]), Some(NetworkMode::Allow));
        assert_eq!(mode(&["--deny", "a.example"]), Some(NetworkMode::Public));
        assert_eq!(mode(&["--secret", "token"]), Some(NetworkMode::Public));
        assert_eq!(mode(&["--net", "ask", "--allow", "a.example"]), Some(NetworkMode::Ask));
    }

    #[test]
    fn wrong_flags_are_refused_in_words() {
        for (words, expected) in [
            (["--net", "open"], "write auto, none, public"),
            (["--net", "public=a.example"], "public takes no rules"),
            (["--net", "allow=a b"], "a b"),
            (["--allow", "192.0.2.1/8"], "192.0.2.1/8"),
            (["--deny", "*x"], "*x"),
            (["--secret", "a b"], "name"),
        ] {
            let error = Line::try_parse_from(["x"].iter().chain(&words)).unwrap_err().to_string();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }

    #[test]
    fn a_policy_is_shown_as_the_flags_that_make_it() {
        let words =
            ["--net", "allow", "--allow", "a.example", "--allow", "*.b.example:443", "--deny", "192.0.2.1"];
        let shown = flags(&request(&policy(&words).unwrap()));
        assert_eq!(shown, "--net allow --allow a.example --allow '*.b.example:443' --deny 192.0.2.1");
    }

    #[test]
    fn a_refusal_is_forgotten_once_it_was_allowed() {
        let entry = |verdict, host: &str| NetworkLogEntry {
            number: 1,
            at: String::new(),
            verdict,
            protocol: api::NetworkProtocol::Tcp,
            host: Some(host.to_owned()),
            address: None,
            port: Some(443),
            rule: "not in the allow list".to_owned(),
            process: None,
            count: 1,
        };
        let mut refusal = LastRefusal::default();
        refusal.saw(&entry(api::NetworkVerdict::Denied, "a.example"));
        refusal.saw(&entry(api::NetworkVerdict::Allowed, "b.example"));
        assert_eq!(refusal.host(), Some("a.example"));
        refusal.saw(&entry(api::NetworkVerdict::Allowed, "a.example"));
        assert_eq!(refusal.host(), None);
    }

    #[test]
    fn destinations_are_told_as_far_as_they_are_known() {
        assert_eq!(destination(Some("a.example"), Some("192.0.2.1"), Some(443)), "a.example:443 (192.0.2.1)");
        assert_eq!(destination(None, Some("2001:db8::1"), Some(80)), "[2001:db8::1]:80");
        assert_eq!(destination(Some("a.example"), None, None), "a.example");
        assert_eq!(destination(Some("192.0.2.1"), Some("192.0.2.1"), Some(80)), "192.0.2.1:80");
        assert_eq!(destination(None, None, Some(7)), "?:7");
    }
}
