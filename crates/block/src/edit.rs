//! Changes in a configuration file. Everything else stays: comments, order, and missing options.

use crate::{ConfigError, VolumeConfig};
use toml_edit::{DocumentMut, Item, Value};

fn value_of(value: &toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Boolean(flag) => (*flag).into(),
        // No option has another type.
        _ => return None,
    })
}

impl VolumeConfig {
    /// The file `text`, with the options that differ from this configuration changed to it.
    ///
    /// # Errors
    /// If `text` is no configuration.
    pub fn edited(&self, text: &str) -> Result<String, ConfigError> {
        let wrong = |error: String| ConfigError(format!("the configuration cannot be changed: {error}"));
        let before: Self = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let mut document: DocumentMut =
            text.parse().map_err(|error: toml_edit::TomlError| wrong(error.to_string()))?;
        let table = |config: &Self| toml::Table::try_from(config).map_err(|error| wrong(error.to_string()));
        let (old, new) = (table(&before)?, table(self)?);
        for (name, value) in new.iter().filter(|(name, value)| old.get(*name) != Some(*value)) {
            let Some(mut value) = value_of(value) else { continue };
            match document.get_mut(name).and_then(Item::as_value_mut) {
                Some(place) => {
                    *value.decor_mut() = place.decor().clone();
                    *place = value;
                }
                None => _ = document.insert(name, Item::Value(value)),
            }
        }
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            document.remove(name);
        }
        Ok(document.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_changed_stays() {
        let config = VolumeConfig { slots: 6400, ..VolumeConfig::usual("write-back") };
        let text = config.to_toml().unwrap();
        assert_eq!(config.edited(&text).unwrap(), text);
        let own = text.replace("workers = 16", "workers = 32 # as many as the array has disks").replace(
            "mode = \"write-back\"",
            "# asked by the auditors\nmode   = \"write-back\"   # until June",
        );
        let own =
            own.lines().filter(|line| !line.starts_with("switch_policy")).collect::<Vec<_>>().join("\n");
        let mut changed: VolumeConfig = toml::from_str(&own).unwrap();
        changed.set("mode", "write-through").unwrap();
        changed.set("dirty-percent-max", "70").unwrap();
        changed.set("switch-policy", "true").unwrap();
        let edited = changed.edited(&own).unwrap();
        assert_eq!(toml::from_str::<VolumeConfig>(&edited).unwrap(), changed);
        for kept in
            ["workers = 32 # as many", "# asked by the auditors\nmode   = \"write-through\"   # until June"]
        {
            assert!(edited.contains(kept), "{kept}: {edited}");
        }
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(lines(&own).difference(&lines(&edited)).count(), 2, "two lines are others");
    }
}
