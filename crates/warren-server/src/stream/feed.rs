use bytes::Bytes;
use tokio::sync::mpsc;
use warren_engine::ProcessWriter;

use super::Ending;

/// Messages of the client for the process's standard input.
#[derive(Debug)]
pub(super) enum Input {
    Bytes(Bytes),
    End,
}

/// Gives the process its input at the pace at which it reads. Never ends a conversation: a process
/// that reads no more may still have things to say.
pub(super) async fn feed(mut writer: ProcessWriter, mut waiting: mpsc::Receiver<Input>) -> Ending {
    while let Some(input) = waiting.recv().await {
        let given = match input {
            Input::Bytes(bytes) => writer.write(bytes).await,
            Input::End => writer.close_stdin().await,
        };
        if let Err(error) = given {
            tracing::debug!(%error, "the process takes no more input");
        }
    }
    std::future::pending().await
}
