//! Templates as clients read them.

use warren_core::{BuildId, BuildOutcome, BuildRecord, ImageRecord, Owner, Tag, TemplateInfo};
use warren_engine::{BuildLog, Images, LogLevel, LogLine, WantedLines};
use warren_face::auth::Caller;
use warren_face::extract::Params;
use warren_face::time::rfc3339;

use super::error::message;
use crate::ENVD_VERSION;
use crate::error::E2bError;
use crate::rest::templates as rest;
use crate::state::E2b;

/// The id of a build for templates that were not built here. No build has it.
const NO_BUILD: &str = "00000000-0000-0000-0000-000000000000";

/// How an owner's templates look.
pub(super) struct Shown<'a> {
    state: &'a E2b,
    images: Images,
    owner: &'a Owner,
}

impl<'a> Shown<'a> {
    pub(super) fn new(state: &'a E2b, caller: &'a Caller) -> Self {
        Self { state, images: state.engine.as_(caller).images(), owner: &caller.owner }
    }

    pub(super) fn all(&self, images: &[ImageRecord]) -> Vec<rest::Template> {
        images.iter().map(|image| self.one(image)).collect()
    }

    fn one(&self, image: &ImageRecord) -> rest::Template {
        let limits = &self.state.settings.default_limits;
        let newest = image.newest();
        let (spawn_count, last_spawned) = self.images.uses_of(image);
        rest::Template {
            template_id: image.id.to_string(),
            build_id: newest.map_or_else(|| NO_BUILD.to_owned(), |(id, _)| id.to_string()),
            cpu_count: image.cpus.unwrap_or(limits.cpus).visible(),
            memory_mb: image.memory.unwrap_or(limits.memory).0 >> 20,
            disk_size_mb: limits.disk.0 >> 20,
            // Owners are apart from one another.
            public: false,
            aliases: image.name.iter().cloned().collect(),
            names: image.name.iter().map(|name| format!("{}/{name}", self.owner)).collect(),
            created_at: rfc3339(image.created_unix_ms),
            updated_at: rfc3339(image.updated_unix_ms),
            created_by: None,
            last_spawned_at: last_spawned.map(rfc3339),
            spawn_count,
            build_count: image.build_count,
            envd_version: ENVD_VERSION.to_owned(),
            build_status: newest.map_or(rest::BuildStatus::Waiting, |(id, build)| self.status(id, build)),
        }
    }

    fn status(&self, id: &BuildId, build: &BuildRecord) -> rest::BuildStatus {
        status(build, self.images.log(id).as_deref())
    }

    pub(super) fn with_builds(&self, image: &ImageRecord) -> rest::TemplateWithBuilds {
        let shown = self.one(image);
        let one = |(id, build): (&BuildId, &BuildRecord)| rest::Build {
            build_id: id.to_string(),
            status: self.status(id, build),
            created_at: rfc3339(build.created_unix_ms),
            updated_at: rfc3339(build.created_unix_ms),
            cpu_count: shown.cpu_count,
            memory_mb: shown.memory_mb,
            envd_version: ENVD_VERSION.to_owned(),
        };
        let mut builds: Vec<rest::Build> = image.builds.iter().map(one).collect();
        builds.sort_by(|one, other| other.created_at.cmp(&one.created_at));
        rest::TemplateWithBuilds { template: shown, builds }
    }
}

/// One of the server's own templates.
pub(super) fn default(state: &E2b, info: &TemplateInfo) -> rest::Template {
    let limits = &state.settings.default_limits;
    let created = rfc3339(info.created_unix_ms);
    rest::Template {
        template_id: info.name.to_string(),
        build_id: NO_BUILD.to_owned(),
        cpu_count: limits.cpus.visible(),
        memory_mb: limits.memory.0 >> 20,
        disk_size_mb: limits.disk.0 >> 20,
        public: true,
        aliases: vec![info.name.to_string()],
        names: vec![info.name.to_string()],
        created_at: created.clone(),
        updated_at: created,
        created_by: None,
        last_spawned_at: None,
        spawn_count: 0,
        build_count: 1,
        envd_version: ENVD_VERSION.to_owned(),
        build_status: if info.broken.is_some() { rest::BuildStatus::Error } else { rest::BuildStatus::Ready },
    }
}

pub(super) fn status(build: &BuildRecord, log: Option<&BuildLog>) -> rest::BuildStatus {
    match &build.outcome {
        BuildOutcome::Waiting => rest::BuildStatus::Waiting,
        BuildOutcome::Begun { .. } if log.is_some_and(BuildLog::is_running) => rest::BuildStatus::Building,
        BuildOutcome::Begun { .. } => rest::BuildStatus::Waiting,
        BuildOutcome::Ready(_) => rest::BuildStatus::Ready,
        BuildOutcome::Failed(_) => rest::BuildStatus::Error,
    }
}

pub(super) fn reason(build: &BuildRecord) -> Option<rest::BuildReason> {
    let BuildOutcome::Failed(failure) = &build.outcome else { return None };
    let step = Some(failure.step.clone()).filter(|step| !step.is_empty());
    Some(rest::BuildReason { message: message(failure), step })
}

/// Which lines of a log a request asks for.
pub(super) fn wanted(params: &Params, offset: &'static str, most: u64) -> Result<WantedLines, E2bError> {
    let number = |name, most| params.number(name, 0, most);
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(WantedLines {
        offset: count(number(offset, u64::MAX)?.unwrap_or(0)),
        limit: count(number("limit", most)?.unwrap_or(most)),
        least: match params.text("level") {
            None | Some("debug") => LogLevel::Debug,
            Some("info") => LogLevel::Info,
            Some("warn") => LogLevel::Warn,
            Some("error") => LogLevel::Error,
            Some(_) => return Err(E2bError::bad_request("level: it is `debug`, `info`, `warn` or `error`")),
        },
    })
}

pub(super) fn line(line: LogLine) -> rest::BuildLogEntry {
    rest::BuildLogEntry {
        timestamp: rfc3339(line.at_unix_ms),
        message: line.message,
        level: match line.level {
            LogLevel::Debug => rest::LogLevel::Debug,
            LogLevel::Info => rest::LogLevel::Info,
            LogLevel::Warn => rest::LogLevel::Warn,
            LogLevel::Error => rest::LogLevel::Error,
        },
        step: Some(line.step).filter(|step| !step.is_empty()),
    }
}

/// A part of a log. The cursor is a moment, in milliseconds, from which the log is read in the
/// direction that is asked for.
pub(super) fn page_of_log(log: &BuildLog, params: &Params) -> Result<Vec<rest::BuildLogEntry>, E2bError> {
    let page = wanted(params, "offset", 1000)?;
    let mut lines = log.lines(WantedLines { offset: 0, limit: usize::MAX, ..page });
    let cursor = params.number("cursor", 0, u64::MAX)?;
    let backward = match params.text("direction") {
        None | Some("forward") => false,
        Some("backward") => true,
        Some(_) => return Err(E2bError::bad_request("direction: it is `forward` or `backward`")),
    };
    if backward {
        lines.reverse();
    }
    if let Some(cursor) = cursor {
        lines.retain(|line| if backward { line.at_unix_ms <= cursor } else { line.at_unix_ms >= cursor });
    }
    lines.truncate(page.limit);
    Ok(lines.into_iter().map(line).collect())
}

pub(super) fn tags(image: &ImageRecord) -> Vec<rest::TemplateTag> {
    let one = |(tag, of): (&String, &Tag)| rest::TemplateTag {
        tag: tag.clone(),
        build_id: of.build.to_string(),
        created_at: rfc3339(of.since_unix_ms),
    };
    image.tags.iter().map(one).collect()
}

/// Only the last assignment of a tag is remembered, and it has the name of its build.
pub(super) fn assignments(image: &ImageRecord, tag: &str) -> Vec<rest::TagAssignment> {
    let Some(of) = image.tags.get(tag) else { return Vec::new() };
    let created = image.builds.get(&of.build).map_or(of.since_unix_ms, |build| build.created_unix_ms);
    vec![rest::TagAssignment {
        assignment_id: of.build.to_string(),
        build_id: of.build.to_string(),
        assigned_at: rfc3339(of.since_unix_ms),
        build_created_at: rfc3339(created),
        build_finished_at: None,
    }]
}
