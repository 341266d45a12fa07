use ureq::http::Method;

use super::calls::sandbox;
use super::{Client, ClientError, EventReader, quoted};
use crate::api::{CodeContext, CodeContextList, CodeResult, NewCodeContext, RunCode};

impl Client {
    pub fn run_code(&self, id: &str, order: &RunCode) -> Result<CodeResult, ClientError> {
        self.post(&sandbox(id, "/code"), order)
    }

    /// Runs a cell and follows what it does: `stdout` and `stderr` with a [`crate::api::CodeText`]
    /// each, `result` with a [`crate::api::CodeOutput`], `exception` with a
    /// [`crate::api::CodeError`], then `end` with a [`crate::api::CodeEnd`].
    pub fn follow_code(&self, id: &str, order: &RunCode) -> Result<EventReader, ClientError> {
        self.post_and_follow(&sandbox(id, "/code"), order)
    }

    pub fn code_contexts(&self, id: &str) -> Result<CodeContextList, ClientError> {
        self.get(&sandbox(id, "/code/contexts"))
    }

    pub fn create_code_context(&self, id: &str, wanted: &NewCodeContext) -> Result<CodeContext, ClientError> {
        self.post(&sandbox(id, "/code/contexts"), wanted)
    }

    /// The context's state is lost, and what runs in it ends.
    pub fn restart_code_context(&self, id: &str, context: &str) -> Result<(), ClientError> {
        self.ask(
            Method::POST,
            &sandbox(id, &format!("/code/contexts/{}/restart", quoted(context))),
            None::<&()>,
            &[],
        )
    }

    /// Ends what runs in the context; its state stays.
    pub fn interrupt_code_context(&self, id: &str, context: &str) -> Result<(), ClientError> {
        self.ask(
            Method::POST,
            &sandbox(id, &format!("/code/contexts/{}/interrupt", quoted(context))),
            None::<&()>,
            &[],
        )
    }

    pub fn remove_code_context(&self, id: &str, context: &str) -> Result<(), ClientError> {
        self.delete(&sandbox(id, &format!("/code/contexts/{}", quoted(context))))
    }
}
