//! Templates from registries.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, stream};
use http::{HeaderMap, StatusCode};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use warren_core::{ImageAddress, TemplateName};
use warren_engine::WorkKind;
use warren_face::auth::Caller;
use warren_face::error::{ApiError, Code};
use warren_face::sse::{self, Message};
use warren_registry::{Credentials, Reach};
use warren_store::{ImportLimits, ImportRequest, ImportSource, Progress, Replace};
use warren_wire::api;

use super::templates;
use crate::convert;
use crate::extract::Json;
use crate::state::AppState;

/// A pull under way.
struct Pull {
    state: AppState,
    name: TemplateName,
    progress: mpsc::Receiver<Progress>,
    /// It goes on if nobody waits for it any more.
    work: JoinHandle<Result<(), ApiError>>,
}

/// A request to pull, checked.
struct Order {
    image: ImageAddress,
    name: TemplateName,
    replace: bool,
    credentials: Option<Credentials>,
}

/// A pull that fails at once is an answer of its own, also to who wants to be told how it goes.
pub(crate) async fn pull(
    State(state): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    Json(body): Json<api::PullTemplate>,
) -> Result<Response, ApiError> {
    let mut pull = Pull::begin(state, &caller, Order::read(body)?).await?;
    if sse::is_wanted(&headers)
        && let Some(first) = pull.progress.recv().await
    {
        return Ok(sse::answer(&caller, pull.messages(first)));
    }
    Ok((StatusCode::CREATED, Json(pull.end().await?)).into_response())
}

impl Order {
    fn read(body: api::PullTemplate) -> Result<Self, ApiError> {
        let image: ImageAddress =
            body.image.parse().map_err(|error| ApiError::invalid("image", format!("{error}")))?;
        let name = match body.name {
            Some(name) => name.parse().map_err(|error| ApiError::invalid("name", format!("{error}")))?,
            None => image.template_name().ok_or_else(|| {
                ApiError::invalid("name", format!("`{image}` has no name that a template can have: give one"))
            })?,
        };
        let credentials = match (body.username, body.password, body.identity_token) {
            (None, None, None) => None,
            (Some(username), Some(password), None) if !username.contains(':') => {
                Some(Credentials::Password { username, password })
            }
            (None, None, Some(token)) => Some(Credentials::Identity(token)),
            _ => {
                let why = "credentials are a `username` without `:` and a `password`, or an `identity_token`";
                return Err(ApiError::invalid("username", why));
            }
        };
        Ok(Self { image, name, replace: body.replace, credentials })
    }

    /// Blocks.
    fn pull(self, state: &AppState, told: &mpsc::Sender<Progress>) -> Result<(), ApiError> {
        let registries = state.config.images.registries().map_err(ApiError::internal)?;
        let image = registries.image(self.image, self.credentials, Reach::Anywhere);
        let image = image.map_err(ApiError::internal)?;
        let in_use = |name: &TemplateName| {
            state.engine.templates_in_use().map_or(true, |in_use| in_use.contains(name))
        };
        let request = ImportRequest {
            name: self.name,
            source: ImportSource::Registry(&image),
            replace: if self.replace { Replace::Unless(&in_use) } else { Replace::Never },
            limits: ImportLimits::default(),
            // Who is slow to read hears of it less often.
            progress: &mut |progress| told.try_send(progress).unwrap_or_default(),
        };
        state.templates.import(request).map(drop).map_err(templates::refused)
    }
}

impl Pull {
    async fn begin(state: AppState, caller: &Caller, order: Order) -> Result<Self, ApiError> {
        let place = state.engine.as_(caller).place_for(WorkKind::Transfer).await?;
        let (told, progress) = mpsc::channel(1);
        let (name, pulling) = (order.name.clone(), state.clone());
        let work = tokio::spawn(async move {
            place.work(move || order.pull(&pulling, &told)).await.map_err(ApiError::internal).flatten()
        });
        Ok(Self { state, name, progress, work })
    }

    async fn end(self) -> Result<api::Template, ApiError> {
        self.work.await.map_err(ApiError::internal).flatten()?;
        let templates = self.state.engine.templates().await?;
        let found = templates.iter().find(|template| template.name == self.name);
        // It may have been removed since.
        let missing =
            || ApiError::new(Code::TemplateNotFound, format!("there is no template `{}`", self.name));
        Ok(convert::template(found.ok_or_else(missing)?))
    }

    /// How far it is, then the template.
    fn messages(self, first: Progress) -> impl Stream<Item = Message> + Send + 'static {
        stream::unfold(Some((self, Some(first))), |open| async {
            let (mut pull, first) = open?;
            let progress = match first {
                Some(first) => Some(first),
                None => pull.progress.recv().await,
            };
            if let Some(progress) = progress {
                return Some((Message::new("progress", &told(progress)), Some((pull, None))));
            }
            let last = match pull.end().await {
                Ok(template) => Message::new("template", &template),
                Err(error) => Message::error(error),
            };
            Some((last, None))
        })
    }
}

fn told(progress: Progress) -> api::PullProgress {
    api::PullProgress {
        done_bytes: progress.read_bytes,
        total_bytes: progress.total_bytes,
        entries: progress.entries,
    }
}
