//! When everybody has freed and received everything, engines keep nothing; and nothing either of ranks that are gone.

use ropeway_engine::Leftovers;

/// Checks the property of what each engine held when all clients were done, and when all had left, and of the payloads that are still stashed then.
///
/// After faults, messages may lie unasked for until their receiver has left; so only what is left then counts.
pub fn check(
    has_faults: bool,
    (when_done, when_left): (&[Leftovers], &[Leftovers]),
    stashes: usize,
) -> Result<(), String> {
    let is_clean = |leftovers: &[Leftovers]| leftovers.iter().all(|left| *left == Leftovers::default());
    if !has_faults && !is_clean(when_done) {
        return Err(format!("nothing left over: when all clients were done: {when_done:?}"));
    }
    if !is_clean(when_left) {
        return Err(format!("nothing left over: when all clients had left: {when_left:?}"));
    }
    if stashes > 0 {
        return Err(format!("nothing left over: {stashes} stashed payloads that no engine knows"));
    }
    Ok(())
}
