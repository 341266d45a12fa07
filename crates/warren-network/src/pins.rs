//! Which addresses a sandbox's questions were answered with. A connection by name goes to one of
//! these or nowhere.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warren_core::HostName;

/// No answer is given to a sandbox for longer, so that none outlives its pin.
pub(crate) const MOST_TTL: Duration = Duration::from_secs(3600);
/// A pin outlives its answer by so much: clients ask once, and connect a little later.
const GRACE: Duration = Duration::from_secs(60);
/// Pairs of name and address of one sandbox that are remembered; those that were answered longest
/// ago go first.
const MOST_PINS: usize = 4096;
/// How many are left when there were too many, so that not every further pin has to look for the
/// next to go.
const KEPT_PINS: usize = MOST_PINS - MOST_PINS / 8;

/// A client that is answered with the gateway connects to it within this time, or asks again.
const RECENT: Duration = Duration::from_secs(10);
/// More than one of them is as good as none.
const MOST_STAND_INS: usize = 4;

/// One sandbox's pins.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_address: HashMap<IpAddr, Vec<Pin>>,
    count: usize,
    /// How many answers there were.
    turn: u64,
    /// Names that were answered with the gateway, the last one at the end.
    stand_ins: Vec<(HostName, Instant)>,
}

#[derive(Debug)]
struct Pin {
    name: HostName,
    until: Instant,
    /// The last answer that it was in.
    turn: u64,
}

impl Pins {
    /// The name was answered with these addresses.
    pub(crate) fn pin(&self, name: &HostName, addresses: &[IpAddr], ttl: Duration) {
        self.pin_at(Instant::now(), name, addresses, ttl);
    }

    pub(crate) fn holds(&self, name: &HostName, address: IpAddr) -> bool {
        self.holds_at(Instant::now(), name, address)
    }

    /// The names that an address was answered for.
    pub(crate) fn names(&self, address: IpAddr) -> Vec<HostName> {
        self.names_at(Instant::now(), address)
    }

    /// The name was answered with the gateway's address, since it may not be reached, or not yet.
    pub(crate) fn stand_in(&self, name: &HostName) {
        let mut table = self.table.lock();
        table.stand_ins.retain(|(other, _)| other != name);
        table.stand_ins.push((name.clone(), Instant::now()));
        if table.stand_ins.len() > MOST_STAND_INS {
            table.stand_ins.remove(0);
        }
    }

    /// The name that the gateway must have been taken for; `None` where it could be several.
    pub(crate) fn stood_in(&self) -> Option<HostName> {
        let table = self.table.lock();
        let mut recent = table.stand_ins.iter().filter(|(_, since)| since.elapsed() < RECENT);
        let (only, other) = (recent.next(), recent.next());
        other.is_none().then(|| only.map(|(name, _)| name.clone())).flatten()
    }

    fn pin_at(&self, now: Instant, name: &HostName, addresses: &[IpAddr], ttl: Duration) {
        let until = now + ttl.min(MOST_TTL) + GRACE;
        let mut table = self.table.lock();
        table.turn += 1;
        for address in addresses {
            table.put(address.to_canonical(), name, until);
        }
        if table.count > MOST_PINS {
            table.thin_out(now);
        }
    }

    fn holds_at(&self, now: Instant, name: &HostName, address: IpAddr) -> bool {
        let table = self.table.lock();
        let pins = table.by_address.get(&address.to_canonical());
        pins.is_some_and(|pins| pins.iter().any(|pin| pin.name == *name && pin.until > now))
    }

    fn names_at(&self, now: Instant, address: IpAddr) -> Vec<HostName> {
        let table = self.table.lock();
        let pins = table.by_address.get(&address.to_canonical()).into_iter().flatten();
        pins.filter(|pin| pin.until > now).map(|pin| pin.name.clone()).collect()
    }
}

impl Table {
    /// A later answer never shortens what an earlier one has promised.
    fn put(&mut self, address: IpAddr, name: &HostName, until: Instant) {
        let turn = self.turn;
        let pins = self.by_address.entry(address).or_default();
        match pins.iter_mut().find(|pin| pin.name == *name) {
            Some(pin) => *pin = Pin { name: name.clone(), until: pin.until.max(until), turn },
            None => {
                pins.push(Pin { name: name.clone(), until, turn });
                self.count += 1;
            }
        }
    }

    fn thin_out(&mut self, now: Instant) {
        self.keep(|pin| pin.until > now);
        if self.count <= MOST_PINS {
            return;
        }
        let mut turns: Vec<u64> = self.by_address.values().flatten().map(|pin| pin.turn).collect();
        let (_, &mut last_to_go, _) = turns.select_nth_unstable(self.count - KEPT_PINS - 1);
        let newest = self.turn;
        self.keep(|pin| pin.turn > last_to_go || pin.turn == newest);
    }

    fn keep(&mut self, stays: impl Fn(&Pin) -> bool) {
        self.by_address.retain(|_, pins| {
            pins.retain(&stays);
            !pins.is_empty()
        });
        self.count = self.by_address.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_pin_lasts_for_its_ttl_and_a_little_longer_and_never_past_the_most() {
        let (pins, now) = (Pins::default(), Instant::now());
        let (short, long) = (address("192.0.2.1"), address("2001:db8::1"));
        pins.pin_at(now, &name("a.example"), &[short], Duration::from_secs(10));
        pins.pin_at(now, &name("a.example"), &[long], Duration::from_secs(1 << 31));
        let held =
            |after, address| pins.holds_at(now + Duration::from_secs(after), &name("a.example"), address);
        assert!(held(0, short) && held(69, short) && !held(70, short));
        assert!(held(3659, long) && !held(3660, long));
        assert!(!pins.holds(&name("b.example"), short), "pinned for another name");
        assert!(!pins.holds(&name("a.example"), address("192.0.2.2")), "another address");
    }

    #[test]
    fn a_later_answer_never_shortens_a_pin() {
        let (pins, now) = (Pins::default(), Instant::now());
        let (name, address) = (name("a.example"), address("192.0.2.1"));
        pins.pin_at(now, &name, &[address], Duration::from_secs(300));
        pins.pin_at(now, &name, &[address], Duration::ZERO);
        assert!(pins.holds_at(now + Duration::from_secs(359), &name, address));
    }

    #[test]
    fn an_address_has_all_the_names_it_was_answered_for() {
        let pins = Pins::default();
        pins.pin(&name("a.example"), &[address("192.0.2.1")], Duration::ZERO);
        pins.pin(&name("b.example"), &[address("::ffff:192.0.2.1")], Duration::ZERO);
        assert_eq!(pins.names(address("192.0.2.1")), [name("a.example"), name("b.example")]);
        assert!(pins.holds(&name("b.example"), address("192.0.2.1")), "the same address, written otherwise");
        assert!(pins.names(address("192.0.2.9")).is_empty());
    }

    #[test]
    fn what_was_answered_last_is_kept_whatever_its_ttl() {
        let pins = Pins::default();
        for number in 0..20_000_u32 {
            let address = IpAddr::from((0x2001_0db8_u128 << 96 | u128::from(number)).to_be_bytes());
            pins.pin(&name(&format!("h{number}.example")), &[address], Duration::from_secs(3600));
            assert!(pins.table.lock().count <= MOST_PINS);
        }
        let last = address("192.0.2.1");
        pins.pin(&name("last.example"), &[last], Duration::ZERO);
        assert!(pins.holds(&name("last.example"), last));
        assert!(!pins.holds(&name("h0.example"), address("2001:db8::")));
        let table = pins.table.lock();
        assert_eq!(table.count, table.by_address.values().map(Vec::len).sum::<usize>());
    }

    #[test]
    fn one_answer_with_more_than_fits_leaves_itself_and_nothing_else() {
        let pins = Pins::default();
        pins.pin(&name("old.example"), &[address("192.0.2.1")], Duration::ZERO);
        let flood: Vec<IpAddr> = (0..5000_u32).map(|number| IpAddr::from(number.to_be_bytes())).collect();
        pins.pin(&name("flood.example"), &flood, Duration::ZERO);
        assert!(pins.holds(&name("flood.example"), flood[4999]));
        assert!(!pins.holds(&name("old.example"), address("192.0.2.1")));
    }

    #[test]
    fn the_gateway_stands_in_for_one_name_or_for_nobody() {
        let pins = Pins::default();
        assert_eq!(pins.stood_in(), None);
        pins.stand_in(&name("a.example"));
        pins.stand_in(&name("a.example"));
        assert_eq!(pins.stood_in(), Some(name("a.example")));
        for number in 0..100 {
            pins.stand_in(&name(&format!("h{number}.example")));
            assert_eq!(pins.stood_in(), None, "which of them is meant?");
        }
        assert_eq!(pins.table.lock().stand_ins.len(), MOST_STAND_INS);
    }
}
