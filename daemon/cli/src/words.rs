//! Arguments that are one of a few words.

use std::fmt::Debug;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Reads what has one of these names. The help lists them, and whatever else is given is refused with the list.
pub(crate) fn one_of<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: Clone + FromStr<Err: Debug> + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).map(|word| word.parse().expect("it has that name"))
}
