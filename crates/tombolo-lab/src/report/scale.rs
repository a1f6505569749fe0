//! How large a database was, as results say it: a field for each setting of any workload's scale.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value as Json;

use super::value_json;
use crate::plan::Plan;
use crate::settings::{self, MIX, Setting};

/// How large a database was, and of what: `mix` and the settings of all workloads; what is of another one is null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "BTreeMap<String, Json>")]
pub struct ScaleResult(Vec<(String, Json)>);

impl ScaleResult {
    /// All fields, in the order they are printed.
    fn with(value: impl Fn(&Setting) -> Json) -> Self {
        let named = |setting: &Setting| (setting.name.to_owned(), value(setting));
        Self(settings::of_workloads().map(named).collect())
    }

    /// A field, null where it is of another workload.
    pub fn get(&self, setting: &Setting) -> &Json {
        let found = self.0.iter().find(|(name, _)| name == setting.name);
        found.map_or(&Json::Null, |(_, value)| value)
    }

    /// The mix, where there are several.
    pub fn mix(&self) -> Option<&str> {
        self.get(&MIX).as_str()
    }
}

impl From<BTreeMap<String, Json>> for ScaleResult {
    /// Of a whole result.
    fn from(fields: BTreeMap<String, Json>) -> Self {
        Self::with(|setting| fields.get(setting.name).cloned().unwrap_or_default())
    }
}

impl From<&Plan> for ScaleResult {
    fn from(plan: &Plan) -> Self {
        let own = (plan.workload.info().settings)();
        let values = plan.workload.values();
        Self::with(|setting| match own.iter().position(|known| known.name == setting.name) {
            Some(place) => value_json(Some(&setting.numbered(values[place]))),
            None if setting.name == MIX.name => plan.workload.mix().into(),
            None => Json::Null,
        })
    }
}

impl Serialize for ScaleResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
