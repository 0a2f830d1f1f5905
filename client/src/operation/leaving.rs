//! How an operation is given up, and its request with it.

use std::mem;

use ropeway_proto::Command;

use super::{Operation, Phase};

impl Operation {
    /// Asks for the operation to be withdrawn, if the daemon has it.
    pub(crate) fn withdraw(&mut self) {
        if self.phase == Phase::Kept {
            self.forget_kept();
        }
        if self.phase == Phase::Daemon {
            // Without a daemon there is nothing to withdraw, and waiting will tell.
            let _ = self.attachment.publish_one(&Command::Cancel { slot: self.slot, epoch: self.epoch }.encode());
        }
    }

    /// Gives the registration up. Slot and buffer are free for others when the daemon has let go of them.
    pub(crate) fn free(&mut self) {
        self.leave_channel();
        if self.role.as_ref().is_some_and(|role| role.member.function.is_some())
            && let Ok(combiner) = self.attachment.combiner()
        {
            combiner.remove(self.slot);
        }
        self.epoch = self.epoch.wrapping_add(1);
        // Without a daemon everything is free anyway.
        let _ = self.attachment.publish_one(&Command::Free { slot: self.slot, epoch: self.epoch }.encode());
    }

    /// What both ends have started travels on, and nothing else will. Of requests that start together all leave before the first is free.
    pub(crate) fn leave_channel(&mut self) {
        if let Some(direct) = &mut self.direct {
            if self.phase == Phase::Direct {
                direct.leave();
            }
            direct.leave_others();
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.attachment.log().freed(self.slot);
        if self.is_left {
            self.take_receive();
        }
        let (mut memory, detour) = (mem::take(&mut self.memory), self.in_lane.detour.take());
        if let Some(role) = &self.role {
            memory = role.leave(memory);
        }
        self.attachment.give_back(self.slot, self.epoch, memory, detour);
    }
}
