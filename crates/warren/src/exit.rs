//! The exit codes of warren's own. A command that is run has its own, which is passed on.

/// The codes and their meanings, which `docs/cli.md` repeats.
macro_rules! codes {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub(crate) const $name: u8 = $code;)*

        #[cfg(test)]
        pub(crate) const TABLE: &[(u8, &str)] = &[$(($code, $meaning)),*];
    };
}

codes! {
    NO = 1, "the answer is no: states differ (`diff --exit-code`), changes conflict (`promote`, `try`), no such file (`blame`), a cell or a tool failed (`code run`, `tool`), the server refuses work (`health`, `service status`)";
    USAGE = 2, "the command line is wrong: an unknown command or option, a value that cannot be read";
    NOT_RUNNING = 3, "the service is not installed or does not run (`service status`)";
    TIMED_OUT = 124, "the time limit of the command ended it (`--timeout`)";
    FAILED = 125, "warren itself could not do it; the message says why and what to do";
    NOT_EXECUTABLE = 126, "the command cannot be executed";
    NOT_FOUND = 127, "the command was not found, or there is no such path";
    INTERRUPTED = 130, "interrupted with Ctrl-C";
    KILLED = 137, "the command was killed, by the memory limit for instance, or its sandbox ended";
    BROKEN_PIPE = 141, "nobody reads the output any more";
}
