//! How much of the overhead of a message early binding saves.

use ropeway::Session;
use ropeway_examples::Mode;

use crate::overhead::{INITIATE, NS_PER_US, SET_UP, half_rtt, set_up};
use crate::pair::Pair;
use crate::race::take_turns;
use crate::statistics::Summary;
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    for &size in &plan.sizes {
        let mut entrants = [set_up(SET_UP, pair.as_ref(), plan, size.0)?, half_rtt(INITIATE, pair.as_ref(), plan, 0)?];
        let series = take_turns(console, plan.runs, &mut entrants)?;
        let neighbours = series[0].medians().iter().zip(series[1].medians());
        let degrees: Vec<f64> = neighbours.map(|(&o_s, &o_i_us)| degree(o_s, o_i_us * NS_PER_US)).collect();
        if !degrees.is_empty() {
            let measured = Measured {
                mode: Some(Mode::Persistent),
                bytes: Some(size.0),
                ..Measured::new("d_p", "ratio", Summary::in_unit("ratio", &degrees), plan.runs)
            };
            console.outcome(SET_UP, measured)?;
        }
    }
    Ok(())
}

/// `d_p = o_s / (o_s + o_i)`, from 0 to 1.
pub(crate) fn degree(set_up: f64, initiate: f64) -> f64 {
    set_up / (set_up + initiate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_degree_is_the_share_of_the_set_up() {
        assert_eq!(degree(0.0, 5.0), 0.0);
        assert_eq!(degree(5.0, 5.0), 0.5);
        assert_eq!(degree(3.0, 1.0), 0.75);
    }
}
