//! The policy as a runtime's configuration has it.
//!
//! A runtime's rules cannot say all that ours do: no two conditions on one argument, and no "any
//! but these". Where they cannot, the document allows more than the policy, never less; it holds
//! from before the agent is executed, and the agent then loads the exact program, which nothing
//! inside can take off again. Of two refusals the kernel answers the newer filter's error.

use serde_json::{Value, json};
use warren_core::Profile;

use super::policy::{self, Rule, Word};

/// A condition on an argument's bits: the argument, a mask and a value.
type Condition = (u32, u64, u64);

/// The `linux.seccomp` of a runtime's configuration.
pub(super) fn document(profile: Profile) -> Value {
    let rules = policy::rules(profile);
    let mut plain = Vec::new();
    let mut checked = Vec::new();
    for call in policy::calls() {
        let rule = usize::try_from(call.number).ok().and_then(|number| rules.get(number));
        let name = call.name.trim_start_matches("SYS_");
        let mut ways = Vec::new();
        collect(rule.copied().unwrap_or(policy::UNKNOWN), &mut Vec::new(), &mut ways);
        if ways.iter().any(Vec::is_empty) {
            plain.push(name);
            continue;
        }
        checked.extend(ways.into_iter().map(|way| {
            let arguments: Vec<Value> = way
                .into_iter()
                .map(|(index, mask, value)| {
                    json!({"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"})
                })
                .collect();
            json!({"names": [name], "action": "SCMP_ACT_ALLOW", "args": arguments})
        }));
    }
    plain.sort_unstable();
    let mut calls = vec![json!({"names": plain, "action": "SCMP_ACT_ALLOW"})];
    calls.extend(checked);
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": libc::ENOSYS,
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": calls,
    })
}

/// Every way through a rule on which the call is made, or seems to be, as the conditions that can
/// be written down. A way that cannot be written down has none.
fn collect(rule: &'static Rule, so_far: &mut Vec<Condition>, ways: &mut Vec<Vec<Condition>>) {
    match rule {
        // The answer "done" is the newer filter's.
        Rule::Allow | Rule::Refuse(0) => ways.push(so_far.clone()),
        Rule::Refuse(_) => {}
        Rule::If { word, mask, values, then, otherwise } => {
            let condition = |value: u32| match word {
                Word::Low(argument) => Some((*argument, u64::from(*mask), u64::from(value))),
                Word::High(argument) => Some((*argument, u64::from(*mask) << 32, u64::from(value) << 32)),
                Word::Number | Word::Architecture => None,
            };
            for value in *values {
                let new = condition(*value).filter(|(index, ..)| so_far.iter().all(|held| held.0 != *index));
                so_far.extend(new);
                collect(then, so_far, ways);
                if new.is_some() {
                    so_far.pop();
                }
            }
            collect(otherwise, so_far, ways);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(document: &Value) -> Vec<&str> {
        document["syscalls"][0]["names"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect()
    }

    fn rules_of<'a>(document: &'a Value, name: &str) -> Vec<&'a Value> {
        let calls = document["syscalls"].as_array().unwrap().iter().skip(1);
        calls.filter(|call| call["names"][0] == name).collect()
    }

    #[test]
    fn what_the_policy_refuses_whatever_its_arguments_is_not_allowed() {
        for profile in [Profile::Standard, Profile::Strict] {
            let document = document(profile);
            let allowed = names(&document);
            for refused in ["mount", "setns", "bpf", "io_uring_setup", "clone3", "keyctl", "pivot_root"] {
                assert!(!allowed.contains(&refused) && rules_of(&document, refused).is_empty(), "{refused}");
            }
            assert!(allowed.contains(&"read") && allowed.contains(&"execve"));
            assert_eq!(allowed.contains(&"ptrace"), profile == Profile::Standard);
            assert_eq!(document["defaultErrnoRet"], libc::ENOSYS);
        }
    }

    #[test]
    fn conditions_that_can_be_said_are() {
        let document = document(Profile::Standard);
        let clone = rules_of(&document, "clone");
        assert_eq!(clone.len(), 1);
        assert_eq!(clone[0]["args"][0]["value"], 0x7E02_0000);
        assert_eq!(clone[0]["args"][0]["valueTwo"], 0);
        // Streams and datagrams of two families with five protocols, and two others.
        assert_eq!(rules_of(&document, "socket").len(), 2 * 2 * 5 + 2);
        assert!(names(&document).contains(&"ioctl"), "a list of refused commands cannot be said");
    }
}
