//! One row as a register: what a call makes of it, and what it answers. Written apart from the rules of the crate. Instants and durations
//! are seconds.

/// What is asked, as far as one row is concerned.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Put {
        payload: u8,
    },
    /// A claim of the next rows that got this one, or one by name.
    Claim {
        owner: u8,
        lease_for: i64,
        by_name: bool,
    },
    Beat {
        owner: u8,
        epoch: u64,
        lease_for: i64,
    },
    End {
        owner: u8,
        epoch: u64,
        ending: Ending,
    },
    Lapse {
        attempts_max: u32,
    },
    Redrive,
    /// It may remove the row, where it was kept for so long.
    Sweep {
        keep_for: i64,
    },
    Look,
    Jump {
        by: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ending {
    Done,
    Again { delay_for: i64 },
    Dead,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stand {
    Pending,
    Doing,
    Done,
    Dead,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Accepted,
    Duplicate(Stand),
    Conflict(Stand),
    Claimed {
        epoch: u64,
        attempts: u32,
    },
    Taken(Stand),
    NotYet,
    Missing,
    Held(bool),
    /// As what the row was given back, if it was.
    Lapsed(Option<Stand>),
    Redriven,
    Seen {
        stand: Stand,
        attempts: u32,
        epoch: u64,
    },
    Swept,
    Jumped,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Row {
    payload: u8,
    stand: Stand,
    attempts: u32,
    owner: u8,
    epoch: u64,
    lease_until: i64,
    not_before: i64,
    ended_at: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Register {
    now: i64,
    /// Rows of its ordering key may be in front of it.
    is_keyed: bool,
    row: Option<Row>,
}

impl Register {
    pub(crate) fn new(is_keyed: bool) -> Self {
        Self { now: 0, is_keyed, row: None }
    }

    /// What may be there after the call, if it was answered so. None: it cannot have been.
    pub(crate) fn after(&self, call: &Call, reply: &Reply) -> Vec<Self> {
        let with = |row: Row| vec![Self { row: Some(row), ..self.clone() }];
        let if_told = |told: bool| if told { vec![self.clone()] } else { Vec::new() };
        let now = self.now;
        match (call, &self.row) {
            (Call::Jump { by }, _) => vec![Self { now: now + by, ..self.clone() }],
            (Call::Put { payload }, None) if *reply == Reply::Accepted => with(Row {
                payload: *payload,
                stand: Stand::Pending,
                attempts: 0,
                owner: 0,
                epoch: 0,
                lease_until: 0,
                not_before: now,
                ended_at: 0,
            }),
            (Call::Put { payload }, Some(row)) => if_told(match reply {
                Reply::Duplicate(stand) => row.payload == *payload && row.stand == *stand,
                Reply::Conflict(stand) => row.payload != *payload && row.stand == *stand,
                _ => false,
            }),
            (Call::Claim { owner, lease_for, by_name }, Some(row)) => match reply {
                Reply::Claimed { epoch, attempts }
                    if row.stand == Stand::Pending
                        && row.not_before <= now
                        && *attempts == row.attempts + 1
                        && *epoch > row.epoch =>
                {
                    with(Row {
                        stand: Stand::Doing,
                        attempts: *attempts,
                        owner: *owner,
                        epoch: *epoch,
                        lease_until: now + lease_for,
                        ..row.clone()
                    })
                }
                Reply::Taken(stand) => if_told(*by_name && row.stand == *stand && *stand != Stand::Pending),
                Reply::NotYet => if_told(
                    *by_name && row.stand == Stand::Pending && (self.is_keyed || row.not_before > now),
                ),
                _ => Vec::new(),
            },
            (Call::Beat { owner, epoch, lease_for }, Some(row)) => {
                let holds = row.stand == Stand::Doing && row.owner == *owner && row.epoch == *epoch;
                match reply {
                    Reply::Held(true) if holds => with(Row { lease_until: now + lease_for, ..row.clone() }),
                    _ => if_told(*reply == Reply::Held(holds)),
                }
            }
            (Call::End { owner, epoch, ending }, Some(row)) => {
                let is_its = row.owner == *owner && row.epoch == *epoch;
                let holds = row.stand == Stand::Doing && is_its;
                let again = row.stand == Stand::Done && is_its && *ending == Ending::Done;
                if !holds || *reply != Reply::Held(true) {
                    return if_told(*reply == Reply::Held(holds || again));
                }
                let (stand, not_before) = match ending {
                    Ending::Done => (Stand::Done, row.not_before),
                    Ending::Again { delay_for } => (Stand::Pending, now + delay_for),
                    Ending::Dead => (Stand::Dead, row.not_before),
                };
                with(Row { stand, not_before, ended_at: now, ..row.clone() })
            }
            (Call::Lapse { attempts_max }, Some(row)) => {
                let is_over = row.stand == Stand::Doing && row.lease_until <= now;
                let becomes = if row.attempts >= *attempts_max { Stand::Dead } else { Stand::Pending };
                match reply {
                    Reply::Lapsed(Some(stand)) if is_over && *stand == becomes => {
                        with(Row { stand: becomes, not_before: now, ended_at: now, ..row.clone() })
                    }
                    // A row that somebody locks at this moment is passed over.
                    _ => if_told(*reply == Reply::Lapsed(None)),
                }
            }
            (Call::Redrive, Some(row)) => match reply {
                Reply::Redriven if row.stand == Stand::Dead => {
                    with(Row { stand: Stand::Pending, attempts: 0, not_before: now, ..row.clone() })
                }
                Reply::Taken(stand) => if_told(row.stand == *stand && *stand != Stand::Dead),
                _ => Vec::new(),
            },
            (Call::Sweep { keep_for }, Some(row)) => {
                let has_ended = matches!(row.stand, Stand::Done | Stand::Dead);
                let mut after = vec![self.clone()];
                if has_ended && row.ended_at + keep_for <= now {
                    after.push(Self { row: None, ..self.clone() });
                }
                after
            }
            (Call::Look, Some(row)) => {
                let Row { stand, attempts, epoch, .. } = *row;
                if_told(*reply == Reply::Seen { stand, attempts, epoch })
            }
            (Call::Sweep { .. }, None) => if_told(true),
            (Call::Claim { by_name, .. }, None) => if_told(*by_name && *reply == Reply::Missing),
            (Call::Redrive | Call::Look, None) => if_told(*reply == Reply::Missing),
            (Call::Beat { .. } | Call::End { .. }, None) => if_told(*reply == Reply::Held(false)),
            (Call::Lapse { .. }, None) => if_told(*reply == Reply::Lapsed(None)),
            (Call::Put { .. }, None) => Vec::new(),
        }
    }
}
