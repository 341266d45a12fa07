//! Finding one's block again, and clearing away what dead processes have left.

use std::collections::HashSet;
use std::time::Duration;

use crate::claims::{Claim, Domain, LinkOwner};
use crate::ledger::Ledger;
use crate::links::{self, FoundLink};
use crate::netlink::{NetlinkError, Socket};
use crate::nft::{self, ClaimError, Hold, Table};
use crate::place::{self, BLOCKS, Place};

/// How often, and after how long, a table that is in other hands is tried again.
const TRIES: usize = 25;
const BREATH: Duration = Duration::from_millis(20);

/// Links of ended commands in one block that are left to the kernel.
const MOST_LEAVING: usize = 16;

/// The table that a domain has taken, and the links it found.
#[derive(Debug)]
pub(crate) struct TakenBlock {
    pub(crate) table: Table,
    /// Links of this domain's own block that sandboxes had before, with whose they are.
    pub(crate) links: Vec<(FoundLink, LinkOwner)>,
}

/// Why a domain has no block.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeBlockError {
    #[error("all {BLOCKS} blocks of addresses are in use by other processes")]
    NoBlock,
    #[error("list the tables of nftables")]
    Tables(#[source] NetlinkError),
    #[error("claim a table of nftables")]
    Claim(#[source] ClaimError),
    #[error("list the links")]
    Links(#[source] NetlinkError),
    #[error("remove links that nobody has any more")]
    Remove(#[source] NetlinkError),
}

/// Removes the tables, links and names of commands that have ended without doing so.
pub(crate) fn clear_dead(claim: &Claim, socket: &mut Socket) -> Result<(), TakeBlockError> {
    let tables = owners()?;
    let links = owned_links(socket)?;
    let mut domains: Vec<&Domain> = tables.iter().map(|(_, domain)| domain).collect();
    domains.extend(links.iter().map(|(_, owner)| &owner.domain));
    let others = claim.others();
    domains.extend(&others);
    let mut seen = HashSet::new();
    for domain in domains.into_iter().filter(|domain| seen.insert((*domain).clone())) {
        let Some(dead) = claim.take_over(domain) else { continue };
        let theirs = links.iter().filter(|(_, owner)| owner.domain == *domain).map(|(link, _)| link.place);
        remove(socket, theirs)?;
        for (block, _) in tables.iter().filter(|(_, owner)| owner == domain) {
            match open_patiently(*block) {
                Ok(table) => {
                    table.delete().map_err(|error| TakeBlockError::Claim(ClaimError::Kernel(error)))?
                }
                Err(ClaimError::Absent) => {}
                Err(error) => return Err(TakeBlockError::Claim(error)),
            }
            links::lift(socket, *block).map_err(TakeBlockError::Remove)?;
        }
        dead.settle();
    }
    Ok(())
}

/// Removes tables of other data directories that no process has and no link is in: of servers that
/// were killed and never came back. One that does come back after all makes its own anew.
pub(crate) fn clear_abandoned(claim: &Claim, socket: &mut Socket) -> Result<(), TakeBlockError> {
    let links = links::list(socket).map_err(TakeBlockError::Links)?;
    let is_used = |block: u8| links.iter().any(|link| link.place.block == block);
    let tables = owners()?;
    // Tables that wait for the next command of their data directory may wait, unless there is need.
    let is_scarce = tables.len() > usize::from(BLOCKS) / 2;
    let is_abandoned = |(block, domain): &(u8, Domain)| {
        *domain != claim.domain && !is_used(*block) && (is_scarce || !domain.is_command())
    };
    for (block, domain) in tables.into_iter().filter(is_abandoned) {
        // Only where the kernel knows whose a table is can anybody tell that nobody has it.
        let Ok(table) = Table::open(block, Hold::Ours) else { continue };
        if table.is_held() {
            tracing::info!(block, %domain, "removing a table that nobody has");
            table.delete().map_err(|error| TakeBlockError::Claim(ClaimError::Kernel(error)))?;
            links::lift(socket, block).map_err(TakeBlockError::Remove)?;
        }
    }
    Ok(())
}

/// Removes what waits for the next command of this data directory.
fn clear_kept(claim: &Claim, socket: &mut Socket) -> Result<(), TakeBlockError> {
    for name in claim.others().into_iter().map(|domain| domain.name) {
        let Some((_, lease, dead)) = claim.take_kept(name) else { continue };
        match open_patiently(lease.block) {
            Ok(table) => table.delete().map_err(|error| TakeBlockError::Claim(ClaimError::Kernel(error)))?,
            Err(ClaimError::Absent) => {}
            Err(error) => return Err(TakeBlockError::Claim(error)),
        }
        links::lift(socket, lease.block).map_err(TakeBlockError::Remove)?;
        dead.settle();
    }
    Ok(())
}

/// Links of a block that nobody has any more and that the kernel is about to remove. If that takes
/// it long, they are removed here.
pub(crate) fn leaving(block: u8, socket: &mut Socket) -> Result<Vec<(FoundLink, LinkOwner)>, TakeBlockError> {
    let mut found = owned_links(socket)?;
    found.retain(|(link, _)| link.place.block == block);
    if found.len() > MOST_LEAVING {
        remove(socket, found.drain(..).map(|(link, _)| link.place))?;
    }
    // No sandbox comes back to them.
    found.iter_mut().for_each(|(_, owner)| owner.sandbox = None);
    Ok(found)
}

/// The block that this domain had, with what sandboxes have in it; else a free one.
pub(crate) fn settle(
    claim: &Claim,
    ledger: &Ledger,
    socket: &mut Socket,
) -> Result<TakenBlock, TakeBlockError> {
    let (mut ours, theirs): (Vec<_>, Vec<_>) =
        owned_links(socket)?.into_iter().partition(|(_, owner)| owner.domain == claim.domain);
    for (link, owner) in &mut ours {
        // What a link says of itself may lag behind.
        owner.sandbox = ledger.read(link.place, link.index);
    }
    let table = match take_table(claim, &ours, &theirs) {
        Err(TakeBlockError::NoBlock) => {
            clear_kept(claim, socket)?;
            clear_abandoned(claim, socket)?;
            take_table(claim, &ours, &theirs)?
        }
        taken => taken?,
    };
    let block = table.block();
    // Links that no sandbox has were made ahead of time by who is gone. Those in other blocks have
    // no rules: somebody took the table away and somebody else took the block.
    let kept = |(link, owner): &(FoundLink, LinkOwner)| owner.sandbox.is_some() && link.place.block == block;
    let (links, left): (Vec<_>, Vec<_>) = ours.into_iter().partition(kept);
    remove(socket, left.iter().map(|(link, _)| link.place))?;
    let present: HashSet<String> = links.iter().map(|(link, _)| link.place.link()).collect();
    for gone in table.links().iter().filter(|link| !present.contains(*link)) {
        table.remove(gone).map_err(|error| TakeBlockError::Claim(ClaimError::Kernel(error)))?;
    }
    Ok(TakenBlock { table, links })
}

fn take_table(
    claim: &Claim,
    ours: &[(FoundLink, LinkOwner)],
    theirs: &[(FoundLink, LinkOwner)],
) -> Result<Table, TakeBlockError> {
    let tables = nft::tables().map_err(TakeBlockError::Tables)?;
    let owner = claim.domain.to_string();
    if let Some((block, _)) = tables.iter().find(|(_, said)| *said == owner) {
        match open_patiently(*block) {
            Err(ClaimError::Absent) => {}
            opened => return opened.map_err(TakeBlockError::Claim),
        }
    }
    // Where its sandboxes are, if somebody took the table away; else wherever nobody is.
    let before = ours.iter().filter(|(_, owner)| owner.sandbox.is_some()).map(|(link, _)| link.place.block);
    let is_used = |block: &u8| theirs.iter().any(|(link, _)| link.place.block == *block);
    for block in before.chain((0..BLOCKS).filter(|block| !is_used(block))) {
        match Table::claim(block, &owner, Hold::Ours) {
            Err(ClaimError::Taken) => {}
            claimed => return claimed.map_err(TakeBlockError::Claim),
        }
    }
    Err(TakeBlockError::NoBlock)
}

/// Somebody who looks whether it is abandoned may have it for a moment, and so may a program that
/// its last process was just starting.
fn open_patiently(block: u8) -> Result<Table, ClaimError> {
    for _ in 0..TRIES {
        match Table::open(block, Hold::Ours) {
            Err(ClaimError::Taken) => std::thread::sleep(BREATH),
            opened => return opened,
        }
    }
    Table::open(block, Hold::Ours)
}

fn owners() -> Result<Vec<(u8, Domain)>, TakeBlockError> {
    let tables = nft::tables().map_err(TakeBlockError::Tables)?;
    Ok(tables.into_iter().filter_map(|(block, owner)| Some((block, Domain::parse(&owner)?))).collect())
}

fn owned_links(socket: &mut Socket) -> Result<Vec<(FoundLink, LinkOwner)>, TakeBlockError> {
    let links = links::list(socket).map_err(TakeBlockError::Links)?;
    Ok(links
        .into_iter()
        .filter_map(|link| LinkOwner::parse(&link.alias).map(|owner| (link, owner)))
        .collect())
}

fn remove(socket: &mut Socket, places: impl Iterator<Item = Place>) -> Result<(), TakeBlockError> {
    let places: Vec<Place> = places.collect();
    for block in 0..BLOCKS {
        let here: Vec<Place> = places.iter().copied().filter(|place| place.block == block).collect();
        links::remove(socket, &here, place::doomed(block)).map_err(TakeBlockError::Remove)?;
    }
    Ok(())
}
