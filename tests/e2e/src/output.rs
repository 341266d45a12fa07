use std::os::unix::process::ExitStatusExt;

use serde_json::Value;

/// How a run of `warren`, or of a command in a sandbox, went.
#[derive(Debug, Clone)]
pub struct Output {
    /// Absent if a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Output {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output without the final line break.
    pub fn line(&self) -> String {
        self.text().trim_end().to_owned()
    }

    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}\n{}", self.text(), self.errors()))
    }

    /// Insists on success.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.ended(0)
    }

    /// Insists on an exit code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(
            (self.code, self.signal),
            (Some(code), None),
            "stdout: {}\nstderr: {}",
            head(&self.text()),
            head(&self.errors())
        );
        self
    }

    /// Insists that standard error says something.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.errors().contains(text), "`{text}` is not said: {}", head(&self.errors()));
        self
    }
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: output.stdout,
            stderr: output.stderr,
        }
    }
}

fn head(text: &str) -> String {
    text.chars().take(4000).collect()
}
