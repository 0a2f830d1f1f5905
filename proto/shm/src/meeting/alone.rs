//! The only member of its node: all it arrives for is the daemon's turn.

use ropeway_proto::Completion;

use super::{Meeting, Way};

impl Meeting {
    /// Whether there is one member here, and nothing to be done on its node before the daemon's turn, nor much after it.
    pub fn is_alone(&self) -> bool {
        let meets_nobody = matches!(self.way, Way::Together) && self.slots.len() == 1;
        let opens = self.opener.is_none_or(|opener| self.ranks[0] == opener);
        let begins_elsewhere = self.is_spanning() && self.outlines[0].is_empty;
        meets_nobody && opens && begins_elsewhere && !self.has_much_work()
    }

    /// What [`arrive`](Self::arrive) does for who [is alone](Self::is_alone), in a third of the instructions. Afterwards the daemon has to be
    /// told. `Err` says why there will be no such round.
    #[inline]
    pub fn arrive_alone(&self, round: u32) -> Result<(), Completion> {
        if let Some(why) = self.closed_for(round) {
            return Err(why);
        }
        let rounds = &self.words().rounds;
        if self.opener.is_some() {
            // The daemon comes too, when it is done between the nodes.
            rounds.arrive(self.parties());
        }
        rounds.pass(round.wrapping_add(1));
        Ok(())
    }
}
