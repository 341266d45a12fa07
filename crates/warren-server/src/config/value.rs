use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_norway::Value;
use warren_core::{
    Automatic, ByteSize, Cpus, Flush, HostName, LayerDriver, RunLimits, TemplateName, parse_duration,
};

/// A type that a setting can have: how people write it, and how it is shown to them.
pub(super) trait Setting: Sized {
    /// The type's name in the documents.
    const TYPE: &'static str;

    /// Reads what stands in a file, or a text from elsewhere. The error says what was expected.
    fn read(value: &Value) -> Result<Self, String>;

    /// As people write it.
    fn show(&self) -> Value;
}

/// How people write that there is to be none.
const OFF: &str = "off";

/// Reads what people write as one word: a YAML scalar, or a text from elsewhere.
pub(super) fn word(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Null | Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_) => {
            Err("expected one value, not a list or a table".to_owned())
        }
    }
}

macro_rules! by_word {
    ($type:ty, $name:literal, $expected:literal, $read:expr, $show:expr) => {
        impl Setting for $type {
            const TYPE: &'static str = $name;

            fn read(value: &Value) -> Result<Self, String> {
                let text = word(value)?;
                let read: fn(&str) -> Option<Self> = $read;
                read(&text).ok_or_else(|| format!(concat!("`{}` is not ", $expected), text))
            }

            fn show(&self) -> Value {
                let show: fn(&Self) -> String = $show;
                Value::String(show(self))
            }
        }
    };
}

by_word!(bool, "true or false", "`true` or `false`", |text| text.parse().ok(), bool::to_string);
by_word!(u64, "number", "a whole number", |text| text.parse().ok(), u64::to_string);
by_word!(u32, "number", "a whole number up to 4294967295", |text| text.parse().ok(), u32::to_string);
by_word!(
    u16,
    "port",
    "a port: a number from 1 to 65535",
    |text| text.parse().ok().filter(|port| *port > 0),
    u16::to_string
);
by_word!(
    ByteSize,
    "size",
    "a size: write a whole number with KiB, MiB, GiB or TiB",
    |text| text.parse().ok(),
    |size| size_text(*size)
);
by_word!(
    Cpus,
    "processors",
    "a number of processors: write 2 or 0.5",
    |text| text.parse().ok(),
    Cpus::to_string
);
by_word!(
    Duration,
    "duration",
    "a duration: write a whole number with ms, s, m, h or d",
    |text| parse_duration(text).ok(),
    |duration| duration_text(*duration)
);
by_word!(
    SocketAddr,
    "address",
    "an address with a port, such as 127.0.0.1:7777",
    |text| text.parse().ok(),
    SocketAddr::to_string
);
by_word!(
    HostName,
    "domain",
    "a domain, such as preview.example",
    |text| text.parse().ok(),
    HostName::to_string
);
by_word!(
    Option<SocketAddr>,
    "address or off",
    "`off`, or an address with a port, such as 127.0.0.1:7443",
    |text| if text == OFF { Some(None) } else { text.parse().ok().map(Some) },
    |address| address.map_or_else(|| OFF.to_owned(), |address| address.to_string())
);
by_word!(
    Option<PathBuf>,
    "file or off",
    "`off`, or an absolute path",
    |text| if text == OFF {
        Some(None)
    } else {
        Some(PathBuf::from(text)).filter(|path| path.is_absolute()).map(Some)
    },
    |path| path.as_ref().map_or_else(|| OFF.to_owned(), |path| path.display().to_string())
);
by_word!(
    TemplateName,
    "template",
    "the name of a template",
    |text| text.parse().ok(),
    TemplateName::to_string
);
by_word!(
    PathBuf,
    "directory",
    "an absolute path",
    |text| Some(PathBuf::from(text)).filter(|path| path.is_absolute()),
    |path| path.display().to_string()
);

impl Setting for String {
    const TYPE: &'static str = "text";

    fn read(value: &Value) -> Result<Self, String> {
        if value.is_null() { Ok(Self::new()) } else { word(value) }
    }

    fn show(&self) -> Value {
        self.as_str().into()
    }
}

impl Setting for Vec<PathBuf> {
    const TYPE: &'static str = "list of directories";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Sequence(items) => items.iter().map(PathBuf::read).collect(),
            Value::String(text) if text.starts_with('[') => Self::read(&flow(text)?),
            Value::String(text) => text
                .split(',')
                .filter(|part| !part.is_empty())
                .map(|part| PathBuf::read(&part.into()))
                .collect(),
            _ => Err("expected a list of directories".to_owned()),
        }
    }

    fn show(&self) -> Value {
        Value::Sequence(self.iter().map(Setting::show).collect())
    }
}

impl Setting for BTreeMap<String, String> {
    const TYPE: &'static str = "table of texts";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Mapping(pairs) => {
                pairs.iter().map(|(name, value)| Ok((word(name)?, word(value)?))).collect()
            }
            Value::String(text) if text.starts_with('{') => Self::read(&flow(text)?),
            Value::String(text) => text
                .split(',')
                .filter(|part| !part.is_empty())
                .map(|part| part.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
                .collect::<Option<Self>>()
                .ok_or_else(|| "expected NAME=VALUE, with commas between several".to_owned()),
            _ => Err("expected a table of names and texts".to_owned()),
        }
    }

    fn show(&self) -> Value {
        Value::Mapping(
            self.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect(),
        )
    }
}

/// The most machines of one template that may be kept ready.
const MOST_READY: u32 = 100;

impl Setting for BTreeMap<TemplateName, u32> {
    const TYPE: &'static str = "table of counts";

    fn read(value: &Value) -> Result<Self, String> {
        let count = |value: &Value| match u32::read(value)? {
            count @ ..=MOST_READY => Ok(count),
            _ => Err(format!("at most {MOST_READY} of a template are kept ready")),
        };
        match value {
            Value::Mapping(pairs) => {
                pairs.iter().map(|(name, value)| Ok((TemplateName::read(name)?, count(value)?))).collect()
            }
            Value::String(text) if text.starts_with('{') => Self::read(&flow(text)?),
            _ => Err("expected a table of templates and counts: {host: 3}".to_owned()),
        }
    }

    fn show(&self) -> Value {
        Value::Mapping(self.iter().map(|(name, count)| (name.to_string().into(), (*count).into())).collect())
    }
}

/// Classes of customers with their run limits.
impl Setting for BTreeMap<String, RunLimits> {
    const TYPE: &'static str = "table of run limits";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Mapping(pairs) => {
                pairs.iter().map(|(name, limits)| Ok((word(name)?, read_run_limits(limits)?))).collect()
            }
            Value::String(text) if text.starts_with('{') => Self::read(&flow(text)?),
            _ => {
                Err("expected a table: {NAME: {runs: 10, run_time: 5m, tokens: 50000, duration: 15m}}"
                    .to_owned())
            }
        }
    }

    fn show(&self) -> Value {
        let show = |limits: &RunLimits| {
            let pairs = [
                ("runs", limits.runs.show()),
                ("run_time", Duration::from_secs(limits.run_s).show()),
                ("tokens", limits.tokens.show()),
                ("duration", Duration::from_secs(limits.duration_s).show()),
            ];
            Value::Mapping(pairs.into_iter().map(|(name, value)| (name.into(), value)).collect())
        };
        Value::Mapping(self.iter().map(|(name, limits)| (name.as_str().into(), show(limits))).collect())
    }
}

fn read_run_limits(value: &Value) -> Result<RunLimits, String> {
    let Value::Mapping(pairs) = value else {
        return Err("expected a table with runs, run_time, tokens and duration".to_owned());
    };
    let mut limits = RunLimits::default();
    for (name, value) in pairs {
        match word(name)?.as_str() {
            "runs" => limits.runs = Setting::read(value)?,
            "run_time" => limits.run_s = Duration::read(value)?.as_secs(),
            "tokens" => limits.tokens = Setting::read(value)?,
            "duration" => limits.duration_s = Duration::read(value)?.as_secs(),
            other => {
                return Err(format!("there is no run limit `{other}`: runs, run_time, tokens, duration"));
            }
        }
    }
    Ok(limits)
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

by_word!(
    LogFormat,
    "text or json",
    "`text` or `json`",
    |text| match text {
        "text" => Some(Self::Text),
        "json" => Some(Self::Json),
        _ => None,
    },
    |format| match format {
        LogFormat::Text => "text".to_owned(),
        LogFormat::Json => "json".to_owned(),
    }
);

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLevel(pub tracing::Level);

by_word!(
    LogLevel,
    "level",
    "a level: error, warn, info, debug or trace",
    |text| text.parse().ok().map(Self),
    |level| level.0.to_string().to_lowercase()
);

by_word!(
    LayerDriver,
    "overlay, reflink or btrfs",
    "`overlay`, `reflink` or `btrfs`",
    |text| match text {
        "overlay" => Some(Self::Overlay),
        "reflink" => Some(Self::Reflink),
        "btrfs" => Some(Self::Btrfs),
        _ => None,
    },
    |driver| match driver {
        LayerDriver::Overlay => "overlay".to_owned(),
        LayerDriver::Reflink => "reflink".to_owned(),
        LayerDriver::Btrfs => "btrfs".to_owned(),
    }
);

by_word!(
    Automatic,
    "commands, turns or off",
    "`commands`, `turns` or `off`",
    |text| match text {
        "commands" => Some(Self::Commands),
        "turns" => Some(Self::Turns),
        "off" => Some(Self::Off),
        _ => None,
    },
    |automatic| match automatic {
        Automatic::Commands => "commands".to_owned(),
        Automatic::Turns => "turns".to_owned(),
        Automatic::Off => "off".to_owned(),
    }
);

by_word!(
    Flush,
    "background or commands",
    "`background` or `commands`",
    |text| match text {
        "background" => Some(Self::Background),
        "commands" => Some(Self::Commands),
        _ => None,
    },
    |flush| match flush {
        Flush::Background => "background".to_owned(),
        Flush::Commands => "commands".to_owned(),
    }
);

/// A list or table written on one line.
pub(super) fn flow(text: &str) -> Result<Value, String> {
    serde_norway::from_str(text).map_err(|error| error.to_string())
}

/// Exact, and readable again.
fn size_text(size: ByteSize) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| size.0 > 0 && size.0.trailing_zeros() >= *shift) {
        Some((unit, shift)) => format!("{}{unit}", size.0 >> shift),
        None => size.0.to_string(),
    }
}

fn duration_text(duration: Duration) -> String {
    let ms = duration.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    match units.iter().find(|(_, each)| ms > 0 && ms.is_multiple_of(*each)) {
        Some((unit, each)) => format!("{}{unit}", ms / each),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again<T: Setting>(text: &str) -> Value {
        T::read(&text.into()).unwrap().show()
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in ["4GiB", "1MiB", "1500", "3TiB"] {
            assert_eq!(again::<ByteSize>(text), Value::from(text));
        }
        for text in ["250ms", "90s", "10m", "4h", "7d"] {
            assert_eq!(again::<Duration>(text), Value::from(text));
        }
        assert_eq!(again::<Duration>("120s"), Value::from("2m"));
        assert_eq!(again::<LogLevel>("WARN"), Value::from("warn"));
    }

    #[test]
    fn lists_and_tables_have_a_short_form_for_one_line() {
        let list = Vec::<PathBuf>::read(&"/a,/b".into()).unwrap();
        assert_eq!(list, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(Vec::<PathBuf>::read(&"[/a, /b]".into()), Ok(list));
        let table = BTreeMap::<String, String>::read(&"A=1,B=x=y".into()).unwrap();
        assert_eq!(table["B"], "x=y");
        let tiers = BTreeMap::<String, RunLimits>::read(&"{gold: {runs: 99, run_time: 10m}}".into()).unwrap();
        assert_eq!((tiers["gold"].runs, tiers["gold"].run_s), (99, 600));
    }

    #[test]
    fn wrong_values_are_refused_in_words() {
        assert_eq!(PathBuf::read(&"here".into()), Err("`here` is not an absolute path".to_owned()));
        assert!(bool::read(&"yes".into()).is_err());
        assert!(u16::read(&"0".into()).is_err());
        assert!(ByteSize::read(&Value::Sequence(Vec::new())).is_err());
    }
}
