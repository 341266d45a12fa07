//! Messages that are one choice among several: the JSON object has the one member that was chosen.

/// Writes and reads a message whose only content is a choice. Each variant says its name and how
/// its value is written.
macro_rules! json_oneof {
    ($message:ident . $field:ident : $choice:ident { $($variant:ident = $name:literal as $form:ident),+ $(,)? }) => {
        impl serde::Serialize for $message {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;

                let mut map = serializer.serialize_map(Some(usize::from(self.$field.is_some())))?;
                match &self.$field {
                    $(Some($choice::$variant(value)) => {
                        map.serialize_entry($name, &crate::json::$form(value))?;
                    })+
                    None => {}
                }
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $message {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Choose;

                impl<'de> serde::de::Visitor<'de> for Choose {
                    type Value = Option<$choice>;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        formatter.write_str(concat!("an object with one of", $(" `", $name, "`",)+))
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let mut chosen = None;
                        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                            let next = match key.as_ref() {
                                $($name => map
                                    .next_value::<Option<crate::json::$form<_>>>()?
                                    .map(|value| $choice::$variant(value.0)),)+
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                    None
                                }
                            };
                            if next.is_some() && chosen.is_some() {
                                return Err(serde::de::Error::custom(concat!(
                                    "only one of", $(" `", $name, "`",)+ " may be set"
                                )));
                            }
                            chosen = next.or(chosen);
                        }
                        Ok(chosen)
                    }
                }

                Ok(Self { $field: deserializer.deserialize_map(Choose)? })
            }
        }
    };
}

pub(crate) use json_oneof;
