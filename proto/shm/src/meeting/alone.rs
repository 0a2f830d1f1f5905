//! The only member of its node: all it arrives for is the daemon's turn.

use super::{Meeting, Way};

impl Meeting {
    /// Whether there is one member here, and nothing to be done on its node before the daemon's turn, nor much after it.
    pub fn is_alone(&self) -> bool {
        let meets_nobody = matches!(self.way, Way::Together) && self.slots.len() == 1;
        let opens = self.opener.is_none_or(|opener| self.ranks[0] == opener);
        let begins_elsewhere = self.is_spanning() && self.outlines[0].is_empty;
        meets_nobody && opens && begins_elsewhere && !self.has_much_work()
    }

    /// Arrives for who [is alone](Self::is_alone), unless there will be no such round. The daemon's part, which hears of it in any case: so a
    /// start has to fetch nothing of the meeting.
    pub fn arrive_alone(&self, round: u32) {
        if self.closed_for(round).is_some() {
            return;
        }
        let rounds = &self.words().rounds;
        if self.opener.is_some() {
            // The daemon comes too, when it is done between the nodes.
            rounds.arrive(self.parties());
        }
        rounds.pass(round.wrapping_add(1));
    }
}
