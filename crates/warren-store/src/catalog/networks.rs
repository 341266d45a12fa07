use std::collections::BTreeSet;

use rusqlite::{Connection, params};
use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, NetworkCatalog};
use warren_core::network::Destination;
use warren_core::{Owner, SandboxId};

use super::SqliteCatalog;
use super::failure::JobError;

impl NetworkCatalog for SqliteCatalog {
    fn reached(&self, owner: &Owner, sandbox: &SandboxId) -> Result<BTreeSet<Destination>, CatalogError> {
        self.readers.read(&format!("read what sandbox `{sandbox}` reached"), |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT host, port FROM reached JOIN sandboxes ON sandboxes.id = reached.sandbox
                 WHERE reached.sandbox = ?1 AND sandboxes.owner = ?2",
            )?;
            let columns = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
            let rows = statement.query_map([sandbox.as_str(), owner.as_str()], columns)?;
            rows.map(|row| parse(row?)).collect()
        })
    }

    fn add_reached(
        &self,
        sandbox: &SandboxId,
        destinations: &BTreeSet<Destination>,
        most: u32,
    ) -> Result<(), CatalogError> {
        let action = format!("write down what sandbox `{sandbox}` reached");
        self.writer
            .write(&action, Durability::Process, |connection| add(connection, sandbox, destinations, most))
    }

    fn forget_reached(&self, sandbox: &SandboxId) -> Result<(), CatalogError> {
        let action = format!("forget what sandbox `{sandbox}` reached");
        self.writer.write(&action, Durability::Process, |connection| {
            connection
                .prepare_cached("DELETE FROM reached WHERE sandbox = ?1")?
                .execute([sandbox.as_str()])?;
            Ok(())
        })
    }
}

fn add(
    connection: &Connection,
    sandbox: &SandboxId,
    destinations: &BTreeSet<Destination>,
    most: u32,
) -> Result<(), JobError> {
    let mut count: u32 = connection
        .prepare_cached("SELECT count(*) FROM reached WHERE sandbox = ?1")?
        .query_row([sandbox.as_str()], |row| row.get(0))?;
    let mut insert = connection
        .prepare_cached("INSERT OR IGNORE INTO reached (sandbox, host, port) VALUES (?1, ?2, ?3)")?;
    for Destination { host, port } in destinations {
        if count >= most {
            break;
        }
        let inserted = insert.execute(params![sandbox.as_str(), host.to_string(), port])?;
        count += u32::from(inserted > 0);
    }
    Ok(())
}

fn parse((host, port): (String, u16)) -> Result<Destination, JobError> {
    let host = host
        .parse()
        .map_err(|_| JobError::refused(CatalogErrorKind::Damaged, "the host is not one that was written"))?;
    Ok(Destination { host, port })
}
