//! How fields of the RPC messages are written as JSON: bytes as base64, enumerations by name,
//! numbers also as text. What is read is read generously, as every implementation of this mapping
//! does: `null` is a field's default, both alphabets of base64 are known, padding or not.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod oneof;

pub(crate) use oneof::json_oneof;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// A field that may be absent or `null`, which both mean its default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// True for a field with its default, which is not written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A value that is written as it is.
pub(crate) struct Plain<T>(pub(crate) T);

impl<T: Serialize> Serialize for Plain<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Plain<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

/// Bytes, written as base64.
pub(crate) struct Encoded<T>(pub(crate) T);

impl<T: AsRef<[u8]>> Serialize for Encoded<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.0.as_ref()))
    }
}

impl<'de> Deserialize<'de> for Encoded<Bytes> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(EncodedVisitor).map(Self)
    }
}

struct EncodedVisitor;

impl Visitor<'_> for EncodedVisitor {
    type Value = Bytes;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("bytes as base64")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        let url_safe = text.contains(['-', '_']);
        let decoded = if url_safe { URL_SAFE.decode(text) } else { STANDARD.decode(text) };
        decoded.map(Bytes::from).map_err(|error| E::custom(format_args!("not base64: {error}")))
    }
}

/// A whole number, which may arrive as a number or as text.
pub(crate) struct Number<T>(pub(crate) T);

impl<T: Serialize> Serialize for Number<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Whole> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor(PhantomData)).map(Self)
    }
}

/// The whole numbers that fields have.
pub(crate) trait Whole: FromStr + TryFrom<i64> + TryFrom<u64> {}

impl Whole for u32 {}
impl Whole for i32 {}
impl Whole for i64 {}

struct NumberVisitor<T>(PhantomData<T>);

impl<T: Whole> Visitor<'_> for NumberVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number, within the range of its field")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<T, E> {
        T::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        T::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// For `#[serde(with)]`: a number of at most 32 bits.
pub(crate) mod number {
    use super::{Deserialize, Deserializer, Number, Serialize, Serializer, Whole};

    pub(crate) fn serialize<S: Serializer, T: Serialize>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Whole + Default>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        Ok(Option::<Number<T>>::deserialize(deserializer)?.map_or_else(T::default, |number| number.0))
    }
}

/// For `#[serde(with)]`: a number of 64 bits, written as text because JSON's numbers do not hold it
/// everywhere.
pub(crate) mod long {
    use super::{Deserializer, Serializer, number};

    pub(crate) fn serialize<S: Serializer>(value: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        number::deserialize(deserializer)
    }
}

/// An enumeration of the protocol: its values have names, and are numbers in the other encoding.
pub(crate) trait Named: TryFrom<i32> {
    fn name(self) -> &'static str;
    fn named(name: &str) -> Option<Self>;
    fn number(self) -> i32;
}

/// For `#[serde(with)]`-like use by [`json_enum`]: writes the name, or the number where there is
/// none.
pub(crate) fn write_enum<E: Named, S: Serializer>(value: i32, serializer: S) -> Result<S::Ok, S::Error> {
    match E::try_from(value) {
        Ok(known) => serializer.serialize_str(known.name()),
        Err(_) => serializer.serialize_i32(value),
    }
}

/// Reads a name or a number.
pub(crate) fn read_enum<'de, E: Named, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let value: Option<EnumValue<E>> = Option::deserialize(deserializer)?;
    Ok(value.map_or(0, |value| value.0))
}

struct EnumValue<E>(i32, PhantomData<E>);

impl<'de, E: Named> Deserialize<'de> for EnumValue<E> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EnumVisitor(PhantomData))
    }
}

struct EnumVisitor<E>(PhantomData<E>);

impl<E: Named> Visitor<'_> for EnumVisitor<E> {
    type Value = EnumValue<E>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name or the number of a value")
    }

    fn visit_i64<Error: de::Error>(self, value: i64) -> Result<EnumValue<E>, Error> {
        let number = i32::try_from(value);
        number
            .map(|number| EnumValue(number, PhantomData))
            .map_err(|_| Error::invalid_value(de::Unexpected::Signed(value), &self))
    }

    fn visit_u64<Error: de::Error>(self, value: u64) -> Result<EnumValue<E>, Error> {
        let number = i32::try_from(value);
        number
            .map(|number| EnumValue(number, PhantomData))
            .map_err(|_| Error::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_str<Error: de::Error>(self, name: &str) -> Result<EnumValue<E>, Error> {
        let known = E::named(name).ok_or_else(|| Error::invalid_value(de::Unexpected::Str(name), &self))?;
        Ok(EnumValue(known.number(), PhantomData))
    }
}

/// Gives an enumeration the names of its values, and a module for `#[serde(with)]` on fields that
/// hold it.
macro_rules! json_enum {
    ($type:ident in $module:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl crate::json::Named for $type {
            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn number(self) -> i32 {
                self.into()
            }
        }

        mod $module {
            pub(super) fn serialize<S: serde::Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
                crate::json::write_enum::<super::$type, S>(*value, serializer)
            }

            pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
                crate::json::read_enum::<super::$type, D>(deserializer)
            }
        }
    };
}

pub(crate) use json_enum;
