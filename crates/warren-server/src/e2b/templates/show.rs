//! Templates as clients read them.

use warren_core::{Owner, TemplateInfo};
use warren_e2b::ENVD_VERSION;
use warren_e2b::rest::templates as rest;

use super::book::{Book, Build, Outcome, Template};
use super::jobs::{Job, Wanted};
use super::resolve;
use crate::convert::rfc3339;
use crate::e2b::control::E2bError;
use crate::extract::Params;
use crate::state::AppState;

/// Nobody has such a build: it stands for what was not built here.
const NO_BUILD: &str = "00000000-0000-0000-0000-000000000000";

/// How an owner's templates look.
pub(super) struct Shown<'a> {
    state: &'a AppState,
    owner: &'a Owner,
}

impl<'a> Shown<'a> {
    pub(super) fn new(state: &'a AppState, owner: &'a Owner) -> Self {
        Self { state, owner }
    }

    /// The newest first.
    pub(super) fn all(&self, book: &Book) -> Vec<rest::Template> {
        let mut all: Vec<(u64, rest::Template)> = book
            .templates
            .iter()
            .map(|(id, template)| (template.created_unix_ms, self.one(id, template)))
            .collect();
        all.sort_by(|one, other| (other.0, &other.1.template_id).cmp(&(one.0, &one.1.template_id)));
        all.into_iter().map(|(_, template)| template).collect()
    }

    fn one(&self, id: &str, template: &Template) -> rest::Template {
        let limits = &self.state.settings.default_limits;
        let newest = template.newest();
        let status = newest.map_or(rest::BuildStatus::Waiting, |(id, build)| {
            status(build, self.state.books.jobs.find(self.owner, id).as_deref())
        });
        let (spawn_count, last_spawned) = self.state.books.uses_of(self.owner, id);
        rest::Template {
            template_id: id.to_owned(),
            build_id: newest.map_or(NO_BUILD, |(id, _)| id).to_owned(),
            cpu_count: resolve::cpus(template).unwrap_or(limits.cpus).visible(),
            memory_mb: template.memory_mb.unwrap_or(limits.memory.0 >> 20),
            disk_size_mb: limits.disk.0 >> 20,
            // Owners are apart from one another.
            public: false,
            aliases: template.name.iter().cloned().collect(),
            names: template.name.iter().map(|name| format!("{}/{name}", self.owner)).collect(),
            created_at: rfc3339(template.created_unix_ms),
            updated_at: rfc3339(template.updated_unix_ms),
            created_by: None,
            last_spawned_at: last_spawned.map(rfc3339),
            spawn_count,
            build_count: template.build_count,
            envd_version: ENVD_VERSION.to_owned(),
            build_status: status,
        }
    }

    pub(super) fn with_builds(&self, id: &str, template: &Template) -> rest::TemplateWithBuilds {
        let shown = self.one(id, template);
        let one = |(id, build): (&String, &Build)| rest::Build {
            build_id: id.clone(),
            status: status(build, self.state.books.jobs.find(self.owner, id).as_deref()),
            created_at: rfc3339(build.created_unix_ms),
            updated_at: rfc3339(build.created_unix_ms),
            cpu_count: shown.cpu_count,
            memory_mb: shown.memory_mb,
            envd_version: ENVD_VERSION.to_owned(),
        };
        let mut builds: Vec<rest::Build> = template.builds.iter().map(one).collect();
        builds.sort_by(|one, other| other.created_at.cmp(&one.created_at));
        rest::TemplateWithBuilds { template: shown, builds }
    }
}

/// One of the server's own templates.
pub(super) fn default(state: &AppState, info: &TemplateInfo) -> rest::Template {
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

pub(super) fn status(build: &Build, job: Option<&Job>) -> rest::BuildStatus {
    match &build.outcome {
        Outcome::Waiting => rest::BuildStatus::Waiting,
        Outcome::Begun if job.is_some_and(Job::is_running) => rest::BuildStatus::Building,
        Outcome::Begun => rest::BuildStatus::Waiting,
        Outcome::Ready(_) => rest::BuildStatus::Ready,
        Outcome::Failed { .. } => rest::BuildStatus::Error,
    }
}

pub(super) fn reason(build: &Build) -> Option<rest::BuildReason> {
    let Outcome::Failed { message, step } = &build.outcome else { return None };
    let step = Some(step.clone()).filter(|step| !step.is_empty());
    Some(rest::BuildReason { message: message.clone(), step })
}

/// Which lines of a log a request asks for.
pub(super) fn wanted(params: &Params, offset: &'static str, most: u64) -> Result<Wanted, E2bError> {
    let number = |name, most| params.number(name, 0, most);
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(Wanted {
        offset: count(number(offset, u64::MAX)?.unwrap_or(0)),
        limit: count(number("limit", most)?.unwrap_or(most)),
        least: params.text("level").map_or(Ok(rest::LogLevel::Debug), level)?,
    })
}

fn level(text: &str) -> Result<rest::LogLevel, E2bError> {
    let wrong = |_| E2bError::bad_request("level: it is `debug`, `info`, `warn` or `error`");
    serde_json::from_value(text.into()).map_err(wrong)
}

/// A part of a log. The cursor is a moment, in milliseconds, from which the log is read in the direction that is asked for.
pub(super) fn page_of_log(job: &Job, params: &Params) -> Result<Vec<rest::BuildLogEntry>, E2bError> {
    let page = wanted(params, "offset", 1000)?;
    let mut lines = job.lines(Wanted { offset: 0, limit: usize::MAX, ..page });
    let cursor = params.number("cursor", 0, u64::MAX)?.map(rfc3339);
    let backward = match params.text("direction") {
        None | Some("forward") => false,
        Some("backward") => true,
        Some(_) => return Err(E2bError::bad_request("direction: it is `forward` or `backward`")),
    };
    if backward {
        lines.reverse();
    }
    if let Some(cursor) = cursor {
        lines.retain(|line| if backward { line.timestamp <= cursor } else { line.timestamp >= cursor });
    }
    lines.truncate(page.limit);
    Ok(lines)
}

pub(super) fn tags(template: &Template) -> Vec<rest::TemplateTag> {
    let one = |(tag, of): (&String, &super::book::Tag)| rest::TemplateTag {
        tag: tag.clone(),
        build_id: of.build.clone(),
        created_at: rfc3339(of.since_unix_ms),
    };
    template.tags.iter().map(one).collect()
}

/// Only the last assignment of a tag is remembered, and it has the name of its build.
pub(super) fn assignments(template: &Template, tag: &str) -> Vec<rest::TagAssignment> {
    let Some(of) = template.tags.get(tag) else { return Vec::new() };
    let created = template.builds.get(&of.build).map_or(of.since_unix_ms, |build| build.created_unix_ms);
    vec![rest::TagAssignment {
        assignment_id: of.build.clone(),
        build_id: of.build.clone(),
        assigned_at: rfc3339(of.since_unix_ms),
        build_created_at: rfc3339(created),
        build_finished_at: None,
    }]
}
