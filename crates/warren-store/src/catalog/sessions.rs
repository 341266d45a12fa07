use rusqlite::{Connection, named_params, params};
use warren_core::catalog::{
    CatalogError, CatalogErrorKind, ChangeSession, Durability, Idempotency, InsertError, SessionCatalog,
    SessionFilter, UpdateSessionError,
};
use warren_core::{
    NodeId, Owner, Page, PageRequest, RunDenied, RunRecord, SandboxId, SessionId, SessionRecord,
};

use super::failure::JobError;
use super::{SqliteCatalog, documents, idempotency, integer, page};

impl SessionCatalog for SqliteCatalog {
    fn insert_session(
        &self,
        record: &SessionRecord,
        idempotency: Option<&Idempotency>,
    ) -> Result<(), InsertError> {
        let action = format!("insert session `{}`", record.id);
        let earlier = self.writer.write(&action, Durability::Process, |connection| {
            idempotency::once(connection, idempotency, || insert(connection, record))
        })?;
        earlier.map_or(Ok(()), |earlier| Err(InsertError::Repeated(earlier)))
    }

    fn update_session(
        &self,
        owner: &Owner,
        id: &SessionId,
        durability: Durability,
        change: &mut ChangeSession<'_>,
    ) -> Result<SessionRecord, UpdateSessionError> {
        let action = format!("update session `{id}`");
        self.writer
            .write(&action, durability, |connection| update(connection, owner, id, change))?
            .map_err(UpdateSessionError::Denied)
    }

    fn session(&self, owner: &Owner, id: &SessionId) -> Result<Option<SessionRecord>, CatalogError> {
        self.readers.read(&format!("read session `{id}`"), |connection| find(connection, owner, id))
    }

    fn sessions(
        &self,
        owner: &Owner,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionRecord>, CatalogError> {
        self.readers.read(&format!("list the sessions of `{owner}`"), |connection| {
            let found = select(connection, owner, filter, page)?;
            Ok(page::finish(found, page, |record| (record.created_unix_ms, record.id.to_string())))
        })
    }

    fn open_sessions(&self, node: &NodeId) -> Result<Vec<SessionRecord>, CatalogError> {
        self.readers.read("list the open sessions", |connection| {
            let sql = "SELECT sessions.record
                       FROM sessions JOIN sandboxes ON sandboxes.id = sessions.sandbox
                       WHERE sessions.open = 1 AND sandboxes.node = ?1
                       ORDER BY sessions.owner, sessions.created DESC";
            documents::all(connection, sql, [node.as_str()])
        })
    }

    fn runs(&self, owner: &Owner, id: &SessionId) -> Result<Vec<RunRecord>, CatalogError> {
        self.readers.read(&format!("list the runs of session `{id}`"), |connection| {
            let sql = "SELECT runs.record FROM sessions JOIN runs ON runs.session = sessions.id
                       WHERE sessions.id = ?1 AND sessions.owner = ?2 ORDER BY runs.number";
            documents::all(connection, sql, [id.as_str(), owner.as_str()])
        })
    }
}

/// The sandbox must exist and belong to the same owner.
pub(super) fn insert(connection: &Connection, record: &SessionRecord) -> Result<(), JobError> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO sessions (id, owner, sandbox, client, created, open, record)
             SELECT ?1, owner, id, ?4, ?5, ?6, ?7 FROM sandboxes WHERE owner = ?2 AND id = ?3",
        )?
        .execute(params![
            record.id.as_str(),
            record.owner.as_str(),
            record.sandbox.as_str(),
            record.client,
            integer(record.created_unix_ms),
            record.state.is_open(),
            serde_json::to_string(record)?,
        ])?;
    if inserted == 1 {
        return Ok(());
    }
    Err(JobError::refused(CatalogErrorKind::NotFound, "there is no such sandbox"))
}

fn find(connection: &Connection, owner: &Owner, id: &SessionId) -> Result<Option<SessionRecord>, JobError> {
    let sql = "SELECT record FROM sessions WHERE id = ?1 AND owner = ?2";
    documents::one(connection, sql, [id.as_str(), owner.as_str()])
}

fn update(
    connection: &Connection,
    owner: &Owner,
    id: &SessionId,
    change: &mut ChangeSession<'_>,
) -> Result<Result<SessionRecord, RunDenied>, JobError> {
    let before = find(connection, owner, id)?
        .ok_or_else(|| JobError::refused(CatalogErrorKind::NotFound, "there is no such session"))?;
    let mut record = before.clone();
    let run = match change(&mut record) {
        Ok(run) => run,
        Err(denied) => return Ok(Err(denied)),
    };
    let fixed = |record: &SessionRecord| -> (SessionId, Owner, SandboxId, u64) {
        (record.id.clone(), record.owner.clone(), record.sandbox.clone(), record.created_unix_ms)
    };
    if fixed(&before) != fixed(&record) {
        return Err(JobError::refused(
            CatalogErrorKind::Stale,
            "its id, owner, sandbox and creation time never change",
        ));
    }
    replace(connection, &record)?;
    if let Some(run) = &run {
        insert_run(connection, id, run)?;
    }
    Ok(Ok(record))
}

fn replace(connection: &Connection, record: &SessionRecord) -> Result<(), JobError> {
    connection
        .prepare_cached("UPDATE sessions SET client = ?2, open = ?3, record = ?4 WHERE id = ?1")?
        .execute(params![
            record.id.as_str(),
            record.client,
            record.state.is_open(),
            serde_json::to_string(record)?,
        ])?;
    Ok(())
}

fn insert_run(connection: &Connection, session: &SessionId, run: &RunRecord) -> Result<(), JobError> {
    connection
        .prepare_cached("INSERT INTO runs (id, session, number, record) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![run.id.as_str(), session.as_str(), run.number, serde_json::to_string(run)?])?;
    Ok(())
}

fn select(
    connection: &Connection,
    owner: &Owner,
    filter: &SessionFilter,
    page: &PageRequest,
) -> Result<Vec<SessionRecord>, JobError> {
    let (created, id) = page::start(page);
    let sql = match (&filter.sandbox, filter.ended) {
        (Some(_), _) => SELECT_BY_SANDBOX,
        (None, true) => SELECT_ALL,
        (None, false) => SELECT_OPEN,
    };
    documents::all(
        connection,
        sql,
        named_params! {
            ":owner": owner.as_str(),
            ":created": created,
            ":id": id,
            ":sandbox": filter.sandbox.as_ref().map(SandboxId::as_str),
            ":client": filter.client,
            ":ended": filter.ended,
            ":limit": page::fetched(page),
        },
    )
}

macro_rules! select_sessions {
    ($which:literal) => {
        concat!(
            "SELECT record FROM sessions
             WHERE owner = :owner AND (created, id) < (:created, :id) AND ",
            $which,
            "
             AND (:sandbox IS NULL OR sandbox = :sandbox)
             AND (:client IS NULL OR client = :client)
             AND (:ended OR open = 1)
             ORDER BY created DESC, id DESC LIMIT :limit"
        )
    };
}

/// Three queries, so that each is planned with its own index.
const SELECT_ALL: &str = select_sessions!("true");
const SELECT_OPEN: &str = select_sessions!("open = 1");
const SELECT_BY_SANDBOX: &str = select_sessions!("sandbox = :sandbox");
