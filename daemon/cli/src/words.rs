//! Arguments of few kinds.

use std::fmt::Debug;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Reads a count of something there has to be.
pub(crate) fn at_least_one(word: &str) -> Result<u64, &'static str> {
    word.parse().ok().filter(|&count| count > 0).ok_or("it has to be a whole number, and at least 1")
}

/// Reads what has one of these names, or one as programs write it, with underscores. The help lists them, and whatever else is given is
/// refused with the list.
pub(crate) fn one_of<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: Clone + FromStr<Err: Debug> + Send + Sync + 'static,
{
    let values = names.into_iter().map(|name| PossibleValue::new(name).alias(name.replace('-', "_")));
    PossibleValuesParser::new(values).map(|word| word.replace('_', "-").parse().expect("it has that name"))
}
