//! Which operations belong together across ranks: the two ends of a message, and the members of a collective.
//!
//! The k-th registered send of an envelope belongs to the k-th registered receive of it, and their operations belong together
//! one by one; so do one-shot messages of an envelope; and collectives of a communicator have numbers.

use std::collections::{BTreeMap, HashMap};

use ropeway_proto::collective::CollectiveKind;
use ropeway_proto::event::OperationKind;

use super::{History, OperationHistory, RequestHistory};

/// An operation of a job: rank, request, operation.
pub(crate) type Place = (usize, usize, usize);

/// The two ends of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) send: Place,
    pub(crate) recv: Place,
}

/// What belongs together.
#[derive(Debug, Default)]
pub(crate) struct Partners {
    pub(crate) messages: Vec<Message>,
    /// When the last partner that an operation waited for started its own.
    last_start_ns: HashMap<Place, u64>,
}

/// What both ends of a message have in common: communicator, sender, receiver, tag.
type Envelope = (u32, u32, u32, i32);

/// Operations of one side in the order in which they match: of one-shot messages all, of registered ones request by request.
type Ends = BTreeMap<Envelope, Vec<Vec<Place>>>;

impl Partners {
    pub(crate) fn of(history: &History) -> Self {
        let mut partners = Self::default();
        for (send, recv) in
            [(OperationKind::Send, OperationKind::Recv), (OperationKind::SendOnce, OperationKind::RecvOnce)]
        {
            partners.pair(history, &ends(history, send), &ends(history, recv));
        }
        partners.gather(history);
        partners
    }

    /// When the last partner that an operation waited for started its own, if that is known.
    pub(crate) fn last_start_ns(&self, place: Place) -> Option<u64> {
        self.last_start_ns.get(&place).copied()
    }

    fn pair(&mut self, history: &History, sends: &Ends, recvs: &Ends) {
        for (envelope, sends) in sends {
            for (sends, recvs) in sends.iter().zip(recvs.get(envelope).into_iter().flatten()) {
                for (&send, &recv) in sends.iter().zip(recvs) {
                    self.messages.push(Message { send, recv });
                    self.note(history, send, &[start_ns(history, recv)]);
                    self.note(history, recv, &[start_ns(history, send)]);
                }
            }
        }
    }

    /// Members of a collective wait for its root if it deals something out, else for each other.
    fn gather(&mut self, history: &History) {
        let mut rounds: BTreeMap<(u32, Option<i32>, usize), Vec<Place>> = BTreeMap::new();
        for ((rank, index), request) in requests(history) {
            if let OperationKind::Collective(_) = request.operation {
                for round in 0..request.operations.len() {
                    let members = rounds.entry((request.comm, request.tag, round)).or_default();
                    members.push((rank, index, round));
                }
            }
        }
        let mut sizes: HashMap<u32, usize> = HashMap::new();
        for ((comm, ..), members) in &rounds {
            let size = sizes.entry(*comm).or_insert(if *comm == WORLD { history.ranks.len() } else { 0 });
            *size = members.len().max(*size);
        }
        for ((comm, ..), members) in rounds.iter().filter(|(_, members)| members.len() > 1) {
            let is_complete = members.len() == sizes[comm];
            let mut starts: Vec<u64> = members.iter().map(|&place| start_ns(history, place)).collect();
            starts.sort_unstable();
            for &(rank, index, round) in members {
                let request = &history.ranks[rank].requests[index];
                let root = members.iter().find(|&&(other, ..)| Some(other as u32) == request.peer);
                match (deals_out(request.operation), root) {
                    (true, Some(&root)) => self.note(history, (rank, index, round), &[start_ns(history, root)]),
                    // Who waits to the end for somebody that never came does not wait for those who did.
                    _ if !is_complete && request.operations[round].end_ns.is_none() => {}
                    _ => self.note(history, (rank, index, round), &starts),
                }
            }
        }
    }

    /// The operation's partners have started theirs then, in this order. Whoever came after its end was not waited for.
    fn note(&mut self, history: &History, place: Place, starts: &[u64]) {
        let end_ns = operation(history, place).end_ns.unwrap_or(u64::MAX);
        let before = starts.partition_point(|&start| start <= end_ns);
        if let Some(&last) = starts[..before].last() {
            self.last_start_ns.insert(place, last);
        }
    }
}

/// The communicator of all ranks.
const WORLD: u32 = 0;

fn deals_out(operation: OperationKind) -> bool {
    matches!(operation, OperationKind::Collective(CollectiveKind::Bcast | CollectiveKind::Scatter))
}

/// The operation at that place.
pub(crate) fn operation(history: &History, (rank, request, operation): Place) -> &OperationHistory {
    &history.ranks[rank].requests[request].operations[operation]
}

fn start_ns(history: &History, place: Place) -> u64 {
    operation(history, place).start.begin_ns
}

fn requests(history: &History) -> impl Iterator<Item = ((usize, usize), &RequestHistory)> {
    history
        .ranks
        .iter()
        .enumerate()
        .flat_map(|(rank, told)| told.requests.iter().enumerate().map(move |(index, request)| ((rank, index), request)))
}

/// All ends of that kind.
fn ends(history: &History, kind: OperationKind) -> Ends {
    let mut ends = Ends::new();
    for ((rank, index), request) in requests(history).filter(|(_, request)| request.operation == kind) {
        let (Some(peer), Some(tag)) = (request.peer, request.tag) else { continue };
        let (own, is_send) = (rank as u32, matches!(kind, OperationKind::Send | OperationKind::SendOnce));
        let (source, dest) = if is_send { (own, peer) } else { (peer, own) };
        // What was withdrawn or has failed met nobody.
        let has_met = |operation: &OperationHistory| operation.is_ok || operation.end_ns.is_none();
        let operations = request.operations.iter().enumerate().filter(|(_, operation)| has_met(operation));
        let places = operations.map(|(number, _)| (rank, index, number)).collect();
        ends.entry((request.comm, source, dest, tag)).or_default().push(places);
    }
    if !kind.is_persistent() {
        for sides in ends.values_mut() {
            let mut all = sides.concat();
            all.sort_by_key(|&place| start_ns(history, place));
            *sides = vec![all];
        }
    }
    ends
}
