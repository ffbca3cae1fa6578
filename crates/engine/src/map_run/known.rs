//! The statuses of existing children: four bits for each, so that a run over millions can be taken up again.

use crate::execution::Status;

/// The statuses of an earlier process's children, by their numbers.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// Two per byte; 0 means none.
    nibbles: Vec<u8>,
}

impl Known {
    /// The status of this child; `None`: it was never started.
    pub fn get(&self, index: u32) -> Option<Status> {
        let byte = self.nibbles.get(index as usize / 2)?;
        match (byte >> shift(index)) & 0xf {
            1 => Some(Status::Running),
            2 => Some(Status::Succeeded),
            3 => Some(Status::Failed),
            4 => Some(Status::Aborted),
            5 => Some(Status::TimedOut),
            _ => None,
        }
    }

    /// Sets the status of this child.
    pub fn set(&mut self, index: u32, status: Status) {
        let code = match status {
            Status::Created | Status::Running => 1,
            Status::Succeeded => 2,
            Status::Failed => 3,
            Status::Aborted => 4,
            Status::TimedOut => 5,
        };
        let at = index as usize / 2;
        if self.nibbles.len() <= at {
            self.nibbles.resize(at + 1, 0);
        }
        self.nibbles[at] = self.nibbles[at] & !(0xf << shift(index)) | (code << shift(index));
    }

    /// The children that ran when they were last read.
    pub fn running(&self) -> impl Iterator<Item = u32> {
        let all = 0..self.nibbles.len() as u32 * 2;
        all.filter(|index| self.get(*index) == Some(Status::Running))
    }
}

fn shift(index: u32) -> u32 {
    index % 2 * 4
}

impl std::fmt::Debug for Known {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = (0..self.nibbles.len() as u32 * 2).filter_map(|index| Some((index, self.get(index)?)));
        formatter.debug_map().entries(all).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_child_stands_as_it_was_last_set() {
        let statuses =
            [Status::Running, Status::Succeeded, Status::Failed, Status::Aborted, Status::TimedOut];
        let mut known = Known::default();
        for (index, status) in statuses.into_iter().enumerate().rev() {
            known.set(index as u32 * 3, Status::Succeeded);
            known.set(index as u32 * 3, status);
        }
        for (index, status) in statuses.into_iter().enumerate() {
            assert_eq!(known.get(index as u32 * 3), Some(status));
            assert_eq!(known.get(index as u32 * 3 + 1), None, "its neighbours stay as they were");
        }
        assert_eq!(known.running().collect::<Vec<_>>(), [0]);
    }
}
