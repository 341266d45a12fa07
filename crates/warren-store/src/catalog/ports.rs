use rusqlite::{Connection, Row, params};
use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, PortCatalog};
use warren_core::{Owner, PortRecord, PortSettings, SandboxId};

use super::SqliteCatalog;
use super::failure::JobError;
use super::sandboxes::check_owner;

impl PortCatalog for SqliteCatalog {
    fn ports(&self) -> Result<Vec<PortRecord>, CatalogError> {
        self.readers.read("list the settings of ports", |connection| {
            let mut statement = connection
                .prepare_cached("SELECT sandbox, port, public, host FROM ports ORDER BY sandbox, port")?;
            let rows = statement.query_map([], columns)?;
            rows.map(|row| parse(row?)).collect()
        })
    }

    fn set_port(
        &self,
        owner: &Owner,
        sandbox: &SandboxId,
        port: u16,
        settings: &PortSettings,
    ) -> Result<(), CatalogError> {
        let action = format!("set port {port} of sandbox `{sandbox}`");
        self.writer.write(&action, Durability::Disk, |connection| {
            check_owner(connection, owner, sandbox)?;
            set(connection, sandbox, port, settings)
        })
    }
}

fn set(
    connection: &Connection,
    sandbox: &SandboxId,
    port: u16,
    settings: &PortSettings,
) -> Result<(), JobError> {
    if *settings == PortSettings::default() {
        connection
            .prepare_cached("DELETE FROM ports WHERE sandbox = ?1 AND port = ?2")?
            .execute(params![sandbox.as_str(), port])?;
    } else {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO ports (sandbox, port, public, host) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![sandbox.as_str(), port, settings.public, settings.host])?;
    }
    Ok(())
}

fn columns(row: &Row<'_>) -> rusqlite::Result<(String, u16, PortSettings)> {
    Ok((row.get(0)?, row.get(1)?, PortSettings { public: row.get(2)?, host: row.get(3)? }))
}

fn parse((sandbox, port, settings): (String, u16, PortSettings)) -> Result<PortRecord, JobError> {
    let sandbox = sandbox.parse().map_err(|_| {
        JobError::refused(CatalogErrorKind::Damaged, "the port belongs to an invalid sandbox id")
    })?;
    Ok(PortRecord { sandbox, port, settings })
}
