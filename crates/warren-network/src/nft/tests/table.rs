use std::time::{Duration, Instant};

use super::lab::*;
use crate::nft::{ClaimError, Hold, LinkRules, Table, tables};
use crate::place::Place;
use crate::rules::Rules;
use crate::world::run;

fn link(number: u16, text: &str) -> LinkRules {
    let place = Place { block: 0, number };
    LinkRules {
        link: place.link(),
        mac: place.mac(),
        addresses: vec![v4(place).into(), place.v6().into()],
        rules: Rules::of(&[policy(text)], 0),
    }
}

fn listing() -> String {
    run("nft", "-a list table inet warren-0").unwrap()
}

/// Everything but the elements.
fn rules(listing: &str) -> usize {
    listing.lines().filter(|line| line.starts_with("\t\t") && line.contains("# handle")).count()
}

/// A program that another test starts meanwhile has a copy of our socket until it executes.
fn open_when_let_go(block: u8) -> Table {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        match Table::open(block, Hold::Ours) {
            Err(ClaimError::Taken) if Instant::now() < patience => {
                std::thread::sleep(Duration::from_millis(1))
            }
            opened => return opened.unwrap(),
        }
    }
}

#[test]
fn a_block_is_claimed_once_and_taken_over_when_its_process_is_gone() {
    let Some(lab) = Lab::new() else { return };
    lab.world.on_host(|| {
        assert!(matches!(Table::open(3, Hold::Ours), Err(ClaimError::Absent)));
        let table = Table::claim(3, "instance serve", Hold::Ours).unwrap();
        assert!(matches!(Table::claim(3, "other", Hold::Ours), Err(ClaimError::Taken)));
        assert_eq!(tables().unwrap(), [(3, "instance serve".to_owned())]);
        if table.is_held() {
            assert!(matches!(Table::open(3, Hold::Ours), Err(ClaimError::Taken)));
        }
        table.install(&skeleton()).unwrap();
        table.put(&link(1, "public")).unwrap();
        drop(table);
        let table = open_when_let_go(3);
        assert_eq!((table.owner(), table.links()), ("instance serve", vec![link(1, "public").link]));
        table.delete().unwrap();
        assert_eq!(tables().unwrap(), []);
    });
}

#[test]
fn what_nobody_else_may_change_survives_a_flush() {
    let Some(lab) = Lab::new() else { return };
    lab.world.on_host(|| {
        let table = Table::claim(0, "test", Hold::Ours).unwrap();
        if !table.is_held() {
            eprintln!("skipped: this kernel knows no such tables");
            return;
        }
        table.install(&skeleton()).unwrap();
        table.put(&link(1, "allow 192.0.2.0/24:443")).unwrap();
        let before = listing();
        for command in ["flush ruleset", "flush table inet warren-0", "delete table inet warren-0"] {
            drop(run("nft", command));
            assert!(table.is_intact().unwrap(), "{command}");
        }
        assert_eq!(listing(), before);
        table.put(&link(1, "public")).unwrap();
        table.remove(&link(1, "public").link).unwrap();
        table.delete().unwrap();
        assert_eq!(tables().unwrap(), []);
    });
}

#[test]
fn damage_is_noticed_and_restored() {
    let Some(lab) = Lab::new() else { return };
    lab.world.on_host(|| {
        let table = Table::claim(0, "test", Hold::Shared).unwrap();
        table.install(&skeleton()).unwrap();
        table.put(&link(1, "allow 192.0.2.0/24:443 [2001:db8::/32]:443")).unwrap();
        table.put(&link(2, "public deny 192.0.2.7")).unwrap();
        let strip = |text: String| -> Vec<String> {
            let lines = text.lines().map(|line| line.split(" # handle").next().unwrap_or(line).to_owned());
            lines.collect()
        };
        let before = strip(listing());
        for damage in [
            "flush ruleset",
            "delete table inet warren-0",
            "flush table inet warren-0",
            "flush chain inet warren-0 spoofed",
            "add rule inet warren-0 spoofed accept",
            "insert rule inet warren-0 deliver accept",
            "flush set inet warren-0 closed4",
            "delete element inet warren-0 watched_closed { wrn0-0001 }",
            "flush set inet warren-0 denied4",
            "add element inet warren-0 direct { wrn0-0009 }",
        ] {
            assert!(table.is_intact().unwrap());
            run("nft", damage).unwrap();
            assert!(!table.is_intact().unwrap(), "{damage}");
            table.restore().unwrap();
            assert!(table.is_intact().unwrap(), "{damage}");
            assert_eq!(strip(listing()), before, "{damage}");
        }
        run("nft", "add table ip somebody").unwrap();
        assert!(table.is_intact().unwrap(), "what others do elsewhere is theirs");
    });
}

#[test]
fn the_tables_of_others_are_not_touched() {
    let Some(lab) = Lab::new() else { return };
    lab.world.on_host(|| {
        for command in [
            "add table ip filter",
            "add chain ip filter FORWARD { type filter hook forward priority 0; policy accept; }",
            "add rule ip filter FORWARD counter accept",
            "add table inet warren-other",
        ] {
            run("nft", command).unwrap();
        }
        let before = run("nft", "-a list ruleset").unwrap();
        let table = Table::claim(0, "test", Hold::Ours).unwrap();
        table.install(&skeleton()).unwrap();
        table.put(&link(1, "public")).unwrap();
        table.restore().unwrap();
        assert_eq!(tables().unwrap().len(), 1);
        table.delete().unwrap();
        assert_eq!(run("nft", "-a list ruleset").unwrap(), before);
    });
}

#[test]
fn only_elements_grow_with_links() {
    let Some(lab) = Lab::new() else { return };
    lab.world.on_host(|| {
        let table = Table::claim(0, "test", Hold::Shared).unwrap();
        table.install(&skeleton()).unwrap();
        table.put(&link(1, "public")).unwrap();
        let one = listing();
        for number in 2..=200 {
            table.put(&link(number, "allow 192.0.2.0/24:443 203.0.113.9 deny 192.0.2.7")).unwrap();
        }
        let many = listing();
        assert_eq!(rules(&one), rules(&many));
        assert!(rules(&one) > 40, "{one}");
        for name in
            ["chain spoofed", "chain judge", "set pinned4", "set direct", "set denied6", "set closed4"]
        {
            assert!(many.contains(&format!("\t{name} {{")), "{name}: {many}");
        }
        assert!(one.contains("0.0.0.0/8"), "{one}");
        for number in 1..=200 {
            table.remove(&link(number, "public").link).unwrap();
        }
        let none = listing();
        assert!(!none.contains("wrn0-00") && !none.contains("192.0.2.7"), "{none}");
        assert!(table.is_intact().unwrap());
    });
}

#[test]
fn a_link_is_put_and_removed_fast_among_a_thousand() {
    let Some(lab) = Lab::new() else { return };
    lab.world.on_host(|| {
        let table = Table::claim(0, "test", Hold::Ours).unwrap();
        table.install(&skeleton()).unwrap();
        for number in 1..=1000 {
            table.put(&link(number, "public")).unwrap();
        }
        let last = link(1001, "public");
        let (mut puts, mut removals) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            let start = Instant::now();
            table.put(&last).unwrap();
            puts.push(start.elapsed());
            let start = Instant::now();
            table.remove(&last.link).unwrap();
            removals.push(start.elapsed());
        }
        puts.sort_unstable();
        removals.sort_unstable();
        println!("put {:?}, remove {:?} (medians)", puts[25], removals[25]);
        // A tenth of this is usual; other tests run beside this one.
        assert!(puts[25] < Duration::from_millis(2) && removals[25] < Duration::from_millis(2));
    });
}
