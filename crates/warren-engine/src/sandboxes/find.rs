//! Words for sandboxes. All faces and commands ask here, so a word means the same everywhere.

use warren_core::{Owner, SandboxId, SandboxWord};

use crate::{Access, EngineError, Missing, Sandbox};

/// How many sandboxes a beginning is told to be of.
const MOST_CANDIDATES: usize = 5;
/// How much of a wrong word is repeated.
const LONGEST_TOLD: usize = 80;

impl Access {
    /// The sandbox that a word means: an id, the beginning of one, a name, `@last` or `@default`.
    /// An id is taken as it is, without a look at the catalog. A word for another owner's sandbox
    /// is one for none.
    pub async fn find(&self, word: &str) -> Result<Sandbox, EngineError> {
        let told = || word.chars().take(LONGEST_TOLD).collect::<String>();
        let word: SandboxWord = word.parse().map_err(|_| EngineError::sandbox_not_found(told()))?;
        Ok(self.sandbox(&self.resolve(&word).await?))
    }

    /// The id of the sandbox that a word means.
    pub async fn resolve(&self, word: &SandboxWord) -> Result<SandboxId, EngineError> {
        let (engine, owner) = (&self.engine, self.owner().clone());
        let found = match word.clone() {
            SandboxWord::Id(id) => Some(id),
            SandboxWord::Beginning(beginning) => Some(self.beginning_with(owner, beginning).await?),
            SandboxWord::Name(name) => {
                engine.catalog(move |catalog| catalog.sandbox_named(&owner, &name)).await?
            }
            SandboxWord::Last => engine.catalog(move |catalog| catalog.last_sandbox(&owner)).await?,
            SandboxWord::Default => Some(self.sandboxes().default().await?.id),
        };
        found.ok_or_else(|| EngineError::sandbox_not_found(word))
    }

    async fn beginning_with(&self, owner: Owner, beginning: String) -> Result<SandboxId, EngineError> {
        let wanted = beginning.clone();
        let most = MOST_CANDIDATES + 1;
        let mut ids =
            self.engine.catalog(move |catalog| catalog.sandboxes_beginning(&owner, &wanted, most)).await?;
        let more = ids.len() > MOST_CANDIDATES;
        match ids.pop() {
            None => Err(EngineError::NotFound { what: Missing::Sandbox, id: beginning }),
            Some(one) if ids.is_empty() => Ok(one),
            Some(last) => {
                if !more {
                    ids.push(last);
                }
                Err(EngineError::AmbiguousPrefix { beginning, ids, more })
            }
        }
    }
}
