//! The files below everything that a sandbox writes: a template of ours, or an image of its
//! backend's. Everything here blocks.

use warren_core::{
    CreateRequest, FoundImage, IsolationErrorKind, MountAccess, OwnerBond, RootImage, RootTree, SandboxId,
    SandboxSpec, Templates,
};

use crate::error::Field;
use crate::ports::Backend;
use crate::{Engine, EngineError};

impl Engine {
    /// The request for a sandbox that stands on its base and nothing else.
    pub(crate) fn base_request(
        &self,
        id: &SandboxId,
        spec: &SandboxSpec,
        owner: OwnerBond,
        backend: &Backend,
    ) -> Result<CreateRequest, EngineError> {
        let Some(image) = &spec.image else {
            return self.shared.parts.templates.request(id, spec, owner).map_err(EngineError::Template);
        };
        Ok(CreateRequest::on_image(id.clone(), spec, owner, found_image(image, backend)?))
    }

    /// The directories of a spec's base, so that layers on it can be compared. The backend is the
    /// one that has the image, if it is one.
    pub(crate) fn base_root(
        &self,
        id: &SandboxId,
        spec: &SandboxSpec,
        backend: &str,
    ) -> Result<Vec<RootTree>, EngineError> {
        let Some(image) = &spec.image else {
            let request = self.shared.parts.templates.request(id, spec, OwnerBond::Outlives);
            return Ok(request.map_err(EngineError::Template)?.root.into_trees());
        };
        let FoundImage { trees, .. } = found_image(image, self.backend_named(backend)?.as_ref())?;
        if trees.iter().any(|tree| tree.lowers.is_empty()) {
            let why = format!("the backend `{backend}` does not show the files of the image `{image}`");
            return Err(EngineError::SnapshotsUnavailable(why));
        }
        Ok(trees)
    }
}

/// Finds the image of a spec, and notes which content its name means now.
pub(crate) fn pin_image(backend: &Backend, spec: &mut SandboxSpec) -> Result<(), EngineError> {
    if let Some(image) = &mut spec.image {
        *image = found_image(image, backend)?.image;
    }
    Ok(())
}

fn found_image(image: &RootImage, backend: &Backend) -> Result<FoundImage, EngineError> {
    backend.port.image(image).map_err(|error| match error.kind {
        IsolationErrorKind::Invalid => EngineError::invalid(Field::Image, error.action),
        IsolationErrorKind::Away => {
            backend.set_away(Some(error.to_string()));
            EngineError::BackendUnavailable { name: backend.name().to_owned(), why: error.to_string() }
        }
        _ => EngineError::Backend(error),
    })
}

/// The places of a base and the access to each. That of an image is one that can be written.
pub(crate) fn places(templates: &dyn Templates, spec: &SandboxSpec) -> Result<Vec<RootTree>, EngineError> {
    if spec.image.is_some() {
        return Ok(vec![RootTree { at: "/".into(), lowers: Vec::new(), access: MountAccess::ReadWrite }]);
    }
    let nobody = SandboxId::from_random([0; 16]);
    let request = templates.request(&nobody, spec, OwnerBond::Outlives).map_err(EngineError::Template)?;
    Ok(request.root.into_trees())
}

/// The error for what needs a template of ours below a state. `None` if there is one.
pub(crate) fn image_refused(field: Field, spec: &SandboxSpec, what: &str) -> Option<EngineError> {
    let image = spec.image.as_ref()?;
    Some(EngineError::invalid(
        field,
        format!("it stands on the image `{image}`, and {what} needs a template"),
    ))
}
