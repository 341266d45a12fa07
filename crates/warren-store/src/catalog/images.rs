use rusqlite::{Connection, params};
use warren_core::catalog::{CatalogError, CatalogErrorKind, Durability, ImageCatalog, ImageRoom};
use warren_core::{ImageRecord, KeptStep, NodeId, Owner, SnapshotRecord};

use super::failure::JobError;
use super::{SqliteCatalog, documents, integer};

impl ImageCatalog for SqliteCatalog {
    fn insert_image(&self, record: &ImageRecord) -> Result<(), CatalogError> {
        self.writer.write(&format!("insert image `{}`", record.id), Durability::Disk, |connection| {
            connection
                .prepare_cached(
                    "INSERT INTO images (owner, id, name, created, generation, building, record)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute(params![
                    record.owner.as_str(),
                    record.id.as_str(),
                    record.name,
                    integer(record.created_unix_ms),
                    integer(record.generation),
                    record.is_building(),
                    serde_json::to_string(record)?,
                ])?;
            Ok(())
        })
    }

    fn update_image(&self, record: &ImageRecord) -> Result<(), CatalogError> {
        self.writer.write(&format!("update image `{}`", record.id), Durability::Disk, |connection| {
            let changed = connection
                .prepare_cached(
                    "UPDATE images SET name = ?3, generation = ?4, building = ?5, record = ?6
                     WHERE owner = ?1 AND id = ?2 AND generation = ?4 - 1",
                )?
                .execute(params![
                    record.owner.as_str(),
                    record.id.as_str(),
                    record.name,
                    integer(record.generation),
                    record.is_building(),
                    serde_json::to_string(record)?,
                ])?;
            if changed == 1 { Ok(()) } else { Err(not_as_expected(connection, record)?) }
        })
    }

    fn remove_image(&self, record: &ImageRecord) -> Result<(), CatalogError> {
        self.writer.write(&format!("remove image `{}`", record.id), Durability::Disk, |connection| {
            let removed = connection
                .prepare_cached("DELETE FROM images WHERE owner = ?1 AND id = ?2 AND generation = ?3")?
                .execute(params![record.owner.as_str(), record.id.as_str(), integer(record.generation)])?;
            if removed == 1 { Ok(()) } else { Err(not_as_expected(connection, record)?) }
        })
    }

    fn image(&self, owner: &Owner, name: &str) -> Result<Option<ImageRecord>, CatalogError> {
        self.readers.read(&format!("read image `{name}`"), |connection| {
            let sql = "SELECT record FROM images WHERE owner = ?1 AND (name = ?2 OR id = ?2)
                       ORDER BY name IS NOT ?2 LIMIT 1";
            documents::one(connection, sql, [owner.as_str(), name])
        })
    }

    fn images(&self, owner: &Owner) -> Result<Vec<ImageRecord>, CatalogError> {
        self.readers.read(&format!("list the images of `{owner}`"), |connection| {
            let sql = "SELECT record FROM images WHERE owner = ?1 ORDER BY created DESC, id DESC";
            documents::all(connection, sql, [owner.as_str()])
        })
    }

    fn room_of_images(&self, owner: &Owner) -> Result<ImageRoom, CatalogError> {
        self.readers.read(&format!("count the images of `{owner}`"), |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT count(*), coalesce(sum(octet_length(record)), 0) FROM images WHERE owner = ?1",
            )?;
            let count = |row: &rusqlite::Row<'_>, index| {
                row.get::<_, i64>(index).map(|count| u64::try_from(count).unwrap_or(0))
            };
            let room =
                |row: &rusqlite::Row<'_>| Ok(ImageRoom { images: count(row, 0)?, bytes: count(row, 1)? });
            Ok(statement.query_row([owner.as_str()], room)?)
        })
    }

    fn images_being_built(&self) -> Result<Vec<ImageRecord>, CatalogError> {
        self.readers.read("list the images that are being built", |connection| {
            documents::all(connection, "SELECT record FROM images WHERE building = 1 ORDER BY owner, id", [])
        })
    }

    fn snapshots_of_images(&self, node: &NodeId) -> Result<Vec<SnapshotRecord>, CatalogError> {
        self.readers.read("list the snapshots of images", |connection| {
            let sql = "SELECT record FROM snapshots
                       WHERE name IS NOT NULL AND node = ?1 AND json_extract(record, '$.reason') = 'image'
                       ORDER BY owner, created";
            documents::all(connection, sql, [node.as_str()])
        })
    }

    fn keep_step(&self, owner: &Owner, step: &KeptStep) -> Result<(), CatalogError> {
        self.writer.write("keep the state after a step", Durability::Disk, |connection| {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO image_steps (owner, key, used, record) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![
                    owner.as_str(),
                    step.key,
                    integer(step.used_unix_ms),
                    serde_json::to_string(step)?
                ])?;
            Ok(())
        })
    }

    fn kept_steps(&self, owner: &Owner) -> Result<Vec<KeptStep>, CatalogError> {
        self.readers.read("list the states between steps", |connection| {
            let sql = "SELECT record FROM image_steps WHERE owner = ?1 ORDER BY used, key";
            documents::all(connection, sql, [owner.as_str()])
        })
    }

    fn forget_step(&self, owner: &Owner, key: &str) -> Result<(), CatalogError> {
        self.writer.write("forget the state after a step", Durability::Disk, |connection| {
            connection
                .prepare_cached("DELETE FROM image_steps WHERE owner = ?1 AND key = ?2")?
                .execute([owner.as_str(), key])?;
            Ok(())
        })
    }
}

/// The reason why no row of that generation was found.
fn not_as_expected(connection: &Connection, record: &ImageRecord) -> Result<JobError, JobError> {
    let exists: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM images WHERE owner = ?1 AND id = ?2)")?
        .query_row([record.owner.as_str(), record.id.as_str()], |row| row.get(0))?;
    Ok(if exists {
        JobError::refused(CatalogErrorKind::Stale, "somebody else changed the image")
    } else {
        JobError::refused(CatalogErrorKind::NotFound, "there is no such image")
    })
}
