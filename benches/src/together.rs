//! A collective that all ranks do together, again and again.

use std::marker::PhantomData;
use std::net::IpAddr;

use ropeway::{Collective, Communicator, Error, Located, NeighborCollective, Request};
use ropeway_examples::Mode;

use crate::BenchError;
use crate::bare::Bare;
use crate::called::Called;
use crate::contribution::{Contribution, Element, Extent};
use crate::exchange::BARE;
use crate::method::{Division, Method};
use crate::operation::{CollectiveCall, Operation};
use crate::scheduled::Scheduled;
use crate::torus::{CalledAround, on_torus};

/// One rank's part in it, whatever the form of the call and the type of the elements.
pub(crate) trait Together {
    /// Fills what this rank brings with one value, which costs as little as writing can.
    fn touch(&mut self, round: u64);
    /// Writes what this rank brings to a round, so that results can be checked.
    fn prepare(&mut self, round: u64, extent: Extent);
    /// Does it once, with this between start and wait; without it the call may be one that blocks.
    fn round(&mut self, meanwhile: Option<&mut dyn FnMut()>) -> Result<(), BenchError>;
    /// The same, if it is started and waited for by calls of their own.
    fn registered(&mut self) -> Option<&mut dyn Registered>;
    /// Looks at what this rank has got in a round.
    fn check(&self, round: u64, extent: Extent) -> Result<(), BenchError>;
    /// The same in one that everybody was touched for.
    fn check_touched(&self, round: u64) -> Result<(), BenchError>;
    /// Overwrites what this rank has got, so that it is seen whether it comes again.
    fn spoil(&mut self);
}

/// A way of calling it, with arrays of its own.
pub(crate) trait Form<T> {
    fn input(&mut self) -> &mut [T];
    fn output(&self) -> &[T];
    fn output_mut(&mut self) -> &mut [T];
    /// As [`Together::round`].
    fn round(&mut self, meanwhile: Option<&mut dyn FnMut()>) -> Result<(), BenchError>;
    /// As [`Together::registered`].
    fn registered(&mut self) -> Option<&mut dyn Registered> {
        None
    }
}

/// What is registered once.
pub(crate) trait Registered {
    fn start(&mut self) -> Result<(), Error>;
    /// Waits for what was started, if it was.
    fn wait(&mut self) -> Result<(), Error>;
}

/// How a collective is done.
#[derive(Clone, Copy)]
pub(crate) enum Means<'a> {
    /// By Ropeway, or by messages of it, and called so.
    Ropeway(&'a Method, Mode),
    /// Without Ropeway, by connections between nodes with these addresses.
    Bare(&'a [IpAddr]),
}

/// A collective with blocks of so many bytes: of the vector, or of what a rank has for each. Numbers are combined, of a type that
/// the operator wants; else bytes are passed on.
pub(crate) fn together(
    world: &Communicator,
    means: Means<'_>,
    call: CollectiveCall,
    bytes: usize,
) -> Result<Box<dyn Together>, BenchError> {
    match call.operator() {
        None => of_elements::<u8>(world, means, call, bytes),
        Some(operator) if f64::OPERATORS.contains(&operator) => of_elements::<f64>(world, means, call, bytes),
        Some(operator) if u64::OPERATORS.contains(&operator) => of_elements::<u64>(world, means, call, bytes),
        Some(_) => of_elements::<Located<f64>>(world, means, call, bytes),
    }
}

fn of_elements<T: Element>(
    world: &Communicator,
    means: Means<'_>,
    call: CollectiveCall,
    bytes: usize,
) -> Result<Box<dyn Together>, BenchError> {
    let count = bytes.div_ceil(size_of::<T>());
    let contribution = Contribution::new(call, (world.rank(), world.size()), count);
    match means {
        Means::Ropeway(method, mode) => by_ropeway::<T>(world, contribution, method, mode),
        Means::Bare(addresses) => {
            Ok(Checked::boxed(BARE, contribution.clone(), Bare::<T>::new(world, &contribution, addresses)?))
        }
    }
}

fn by_ropeway<T: Element>(
    world: &Communicator,
    contribution: Contribution,
    method: &Method,
    mode: Mode,
) -> Result<Box<dyn Together>, BenchError> {
    let name = mode.to_string();
    let nodes_do = method.algorithm.as_ref().map_or_else(|| world.clone(), |name| world.with_algorithm(name));
    match (method.division, mode) {
        (Division::TwoLevel, Mode::OneShot) if contribution.call.operation.has_neighbors() => {
            Ok(Checked::boxed(&name, contribution.clone(), CalledAround::<T>::new(world, &contribution)?))
        }
        (Division::TwoLevel, Mode::OneShot) => {
            Ok(Checked::boxed(&name, contribution.clone(), Called::<T>::new(&nodes_do, &contribution)))
        }
        (Division::TwoLevel, Mode::Persistent) => register::<T>(&nodes_do, &name, contribution),
        _ => Ok(Checked::boxed(&name, contribution.clone(), Scheduled::<T>::new(world, &contribution, method)?)),
    }
}

fn register<T: Element>(
    world: &Communicator,
    name: &str,
    contribution: Contribution,
) -> Result<Box<dyn Together>, BenchError> {
    let Contribution { call, size, count, .. } = contribution;
    let CollectiveCall { operation, root, operator, is_uneven } = call;
    let counts = || call.counts(size, count);
    let collective: Collective<T> = match operation {
        Operation::Barrier => return Ok(Checked::boxed(name, contribution, world.barrier_init()?)),
        Operation::NeighborAllgather | Operation::NeighborAlltoall => {
            let collective = register_around::<T>(world, &contribution)?;
            return Ok(Checked::boxed(name, contribution, collective));
        }
        Operation::Bcast => world.bcast_init(count, root)?,
        Operation::Reduce => world.reduce_init(count, operator, root)?,
        Operation::Allreduce => world.allreduce_init(count, operator)?,
        Operation::Scan => world.scan_init(count, operator)?,
        Operation::Exscan => world.exscan_init(count, operator)?,
        Operation::ReduceScatter if is_uneven => world.reduce_scatter_init(&counts(), operator)?,
        Operation::ReduceScatter => world.reduce_scatter_block_init(count, operator)?,
        Operation::Gather if is_uneven => world.gatherv_init(&counts(), root)?,
        Operation::Gather => world.gather_init(count, root)?,
        Operation::Scatter if is_uneven => world.scatterv_init(&counts(), root)?,
        Operation::Scatter => world.scatter_init(count, root)?,
        Operation::Allgather if is_uneven => world.allgatherv_init(&counts())?,
        Operation::Allgather => world.allgather_init(count)?,
        Operation::Alltoall if is_uneven => world.alltoallv_init(&counts())?,
        Operation::Alltoall => world.alltoall_init(count)?,
    };
    Ok(Checked::boxed(name, contribution, collective))
}

fn register_around<T: Element>(
    world: &Communicator,
    contribution: &Contribution,
) -> Result<NeighborCollective<T>, Error> {
    let (torus, Contribution { call, count, .. }) = (on_torus(world)?, contribution);
    let ([input, _], [from, to]) = (contribution.elements(), contribution.around());
    match call.operation {
        Operation::NeighborAllgather if call.is_uneven => torus.neighbor_allgatherv_init(input, from),
        Operation::NeighborAllgather => torus.neighbor_allgather_init(*count),
        _ if call.is_uneven => torus.neighbor_alltoallv_init(to, from),
        _ => torus.neighbor_alltoall_init(*count),
    }
}

impl<T: Element> Form<T> for Collective<T> {
    fn input(&mut self) -> &mut [T] {
        self.input_mut()
    }

    fn output(&self) -> &[T] {
        self.output()
    }

    fn output_mut(&mut self) -> &mut [T] {
        self.output_mut()
    }

    fn round(&mut self, meanwhile: Option<&mut dyn FnMut()>) -> Result<(), BenchError> {
        let active = self.start()?;
        if let Some(compute) = meanwhile {
            compute();
        }
        Ok(active.wait().map(drop)?)
    }

    fn registered(&mut self) -> Option<&mut dyn Registered> {
        Some(self)
    }
}

impl<T: Element> Registered for Collective<T> {
    fn start(&mut self) -> Result<(), Error> {
        Request::start(self).map(drop)
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.active().map_or(Ok(()), |active| active.wait().map(drop))
    }
}

/// A form whose arrays are written and checked.
struct Checked<T, F> {
    /// For messages about it.
    name: String,
    contribution: Contribution,
    form: F,
    element: PhantomData<T>,
}

impl<T: Element, F: Form<T> + 'static> Checked<T, F> {
    fn boxed(name: &str, contribution: Contribution, form: F) -> Box<dyn Together> {
        Box::new(Self { name: name.to_owned(), contribution, form, element: PhantomData })
    }

    /// Whether what this rank brings is its output: a broadcast has one array.
    fn brings_output(&self) -> bool {
        let Contribution { call, rank, .. } = self.contribution;
        call.operation == Operation::Bcast && call.root == rank
    }

    /// Where to write what this rank brings, and what that is.
    fn brought(&mut self) -> (&mut [T], &Contribution) {
        let array = if self.brings_output() { self.form.output_mut() } else { self.form.input() };
        (array, &self.contribution)
    }

    /// What all elements are in such a round.
    fn value(&self, round: u64) -> T {
        T::of(self.contribution.call.operator, round)
    }

    /// An error if there is a wrong element.
    fn verdict(&self, wrong: Option<usize>) -> Result<(), BenchError> {
        match wrong {
            None => Ok(()),
            Some(index) => Err(BenchError::WrongData {
                contestant: format!("{} {}", self.name, self.contribution.call),
                bytes: size_of_val(self.form.output()),
                byte: index * size_of::<T>(),
            }),
        }
    }
}

impl<T: Element, F: Form<T> + 'static> Together for Checked<T, F> {
    fn touch(&mut self, round: u64) {
        let value = self.value(round);
        self.brought().0.fill(value);
    }

    fn prepare(&mut self, round: u64, extent: Extent) {
        let (array, contribution) = self.brought();
        contribution.write(array, round, extent);
    }

    fn round(&mut self, meanwhile: Option<&mut dyn FnMut()>) -> Result<(), BenchError> {
        self.form.round(meanwhile)
    }

    fn registered(&mut self) -> Option<&mut dyn Registered> {
        self.form.registered()
    }

    fn check(&self, round: u64, extent: Extent) -> Result<(), BenchError> {
        self.verdict(self.contribution.first_wrong(self.form.output(), round, extent))
    }

    fn check_touched(&self, round: u64) -> Result<(), BenchError> {
        self.verdict(self.contribution.first_not_of(self.form.output(), self.value(round)))
    }

    fn spoil(&mut self) {
        if !self.brings_output() {
            let value = self.value(SPOILT);
            self.form.output_mut().fill(value);
        }
    }
}

/// A round that is not looked at.
const SPOILT: u64 = 999;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::everybody;

    /// Fewer elements than ranks, so that some have none, and odd numbers.
    const BYTES: [usize; 3] = [1, 24, 10_007];

    #[test]
    fn uneven_parts_come_where_they_belong_registered_or_not() {
        for (nodes, ranks) in [(1, 1), (1, 2), (1, 3), (1, 6), (2, 3), (3, 4)] {
            everybody((nodes, ranks), |world| {
                let operations = Operation::ALL.into_iter().filter(|operation| operation.has_parts());
                for (operation, bytes) in operations.flat_map(|operation| BYTES.map(|bytes| (operation, bytes))) {
                    let call = CollectiveCall { root: ranks - 1, ..CollectiveCall::of(operation).uneven() };
                    for mode in [Mode::Persistent, Mode::OneShot] {
                        let means = Means::Ropeway(&Method::usual(), mode);
                        let mut uneven = together(&world, means, call, bytes).unwrap();
                        for (round, meanwhile) in [(1, true), (2, false)] {
                            uneven.spoil();
                            uneven.prepare(round, Extent::All);
                            let mut nothing = || {};
                            let meanwhile = meanwhile.then_some(&mut nothing as &mut dyn FnMut());
                            uneven.round(meanwhile).unwrap();
                            let checked = uneven.check(round, Extent::All);
                            assert!(checked.is_ok(), "{call} of {bytes}, {mode}, round {round}: {checked:?}");
                        }
                        uneven.spoil();
                        let is_noticed = uneven.check(2, Extent::All).is_err();
                        let gets = Contribution::new(call, (world.rank(), ranks), bytes).elements()[1];
                        assert!(is_noticed || gets <= 8, "{call} of {bytes}, {mode}");
                    }
                }
            });
        }
    }
}
