use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// `/proc/cpuinfo` of a machine with this many of the host's processors.
pub(super) fn of_host(cpus: u32) -> String {
    let Ok(file) = File::open("/proc/cpuinfo") else { return trim([], cpus) };
    let mut lines = BufReader::new(file).lines().map_while(Result::ok);
    // Read no further than needed: the kernel makes the text as it is read, and hosts are large.
    let blocks = std::iter::from_fn(|| {
        let block: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        (!block.is_empty()).then_some(block)
    });
    trim(blocks, cpus)
}

/// The first `cpus` processors of the blocks, numbered from zero, as the cores of one socket. If
/// there are fewer, the last one is repeated.
fn trim(blocks: impl IntoIterator<Item = Vec<String>>, cpus: u32) -> String {
    let is_processor = |block: &Vec<String>| block.iter().any(|line| name_of(line) == "processor");
    let mut processors = blocks.into_iter().filter(is_processor);
    let mut last = vec!["processor\t: 0".to_owned()];
    let mut text = String::new();
    for number in 0..cpus {
        if let Some(next) = processors.next() {
            last = next;
        }
        for line in &last {
            match (name_of(line), line.split_once(':')) {
                ("processor" | "core id" | "apicid" | "initial apicid", Some((name, _))) => {
                    writeln!(text, "{name}: {number}").ok();
                }
                ("siblings" | "cpu cores", Some((name, _))) => {
                    writeln!(text, "{name}: {cpus}").ok();
                }
                ("physical id", Some((name, _))) => {
                    writeln!(text, "{name}: 0").ok();
                }
                _ => {
                    writeln!(text, "{line}").ok();
                }
            }
        }
        text.push('\n');
    }
    text
}

fn name_of(line: &str) -> &str {
    line.split(':').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Vec<Vec<String>> {
        text.split("\n\n").map(|block| block.lines().map(str::to_owned).collect()).collect()
    }

    const HOST: &str = "processor\t: 0\nmodel name\t: A: B\nphysical id\t: 0\nsiblings\t: 8\ncore id\t\t: 0\n\
        cpu cores\t: 4\napicid\t\t: 0\nflags\t\t: fpu ht\npower management:\n\n\
        processor\t: 1\nmodel name\t: A: B\nphysical id\t: 1\nsiblings\t: 8\ncore id\t\t: 6\n\
        cpu cores\t: 4\napicid\t\t: 33\nflags\t\t: fpu ht\npower management:\n";

    #[test]
    fn processors_are_renumbered_as_cores_of_one_socket() {
        assert_eq!(
            trim(blocks(HOST), 2),
            "processor\t: 0\nmodel name\t: A: B\nphysical id\t: 0\nsiblings\t: 2\ncore id\t\t: 0\n\
             cpu cores\t: 2\napicid\t\t: 0\nflags\t\t: fpu ht\npower management:\n\n\
             processor\t: 1\nmodel name\t: A: B\nphysical id\t: 0\nsiblings\t: 2\ncore id\t\t: 1\n\
             cpu cores\t: 2\napicid\t\t: 1\nflags\t\t: fpu ht\npower management:\n\n"
        );
    }

    #[test]
    fn one_processor_is_left_of_many() {
        let text = trim(blocks(HOST), 1);
        assert_eq!(text.matches("processor\t").count(), 1);
        assert!(text.contains("siblings\t: 1\n") && text.contains("cpu cores\t: 1\n"), "{text}");
    }

    #[test]
    fn missing_processors_are_like_the_last() {
        let text = trim(blocks("processor : 0\nBogoMIPS : 1\n\nHardware : board\n"), 3);
        assert_eq!(
            text,
            "processor : 0\nBogoMIPS : 1\n\nprocessor : 1\nBogoMIPS : 1\n\nprocessor : 2\nBogoMIPS : 1\n\n"
        );
    }

    #[test]
    fn a_host_that_says_nothing_has_processors_all_the_same() {
        for odd in ["", "\n", "garbage", "Hardware : board\n", "processors : 3"] {
            assert_eq!(trim(blocks(odd), 2), "processor\t: 0\n\nprocessor\t: 1\n\n", "{odd:?}");
        }
        assert_eq!(trim([], 0), "");
    }

    #[test]
    fn this_host_can_be_read() {
        let text = of_host(3);
        assert_eq!(text.lines().filter(|line| name_of(line) == "processor").count(), 3);
    }
}
