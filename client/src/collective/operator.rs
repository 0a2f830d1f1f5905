//! What reductions combine elements by: predefined operators, and functions of the program.

use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Arc;

use ropeway_proto::collective::Combination;
use ropeway_proto::operator::Operator;
use ropeway_shm::UserFunction;
use zerocopy::IntoBytes;

use crate::plain::element_bytes;
use crate::{Plain, Reducible};

/// What reductions combine elements by: an [`Operator`], a [`Reproducible`] one, or a [`UserOperator`].
pub trait Combine<T: Plain>: sealed::Sealed<T> {}

impl<T: Plain, O: sealed::Sealed<T>> Combine<T> for O {}

/// An operator whose results are the same to the last bit wherever the ranks live.
///
/// Elements are combined one by one in the order of ranks, `((x₀ ∘ x₁) ∘ x₂) ∘ …`, whoever comes when and however many nodes
/// there are. Without it each node combines what its own ranks have first, and sums of floats round differently on other
/// nodes. The price: every node needs all inputs, so of `p` ranks' arrays of `n` elements it gets `p · n` instead of about `2 n`, unless
/// each rank has a node of its own and the operator is predefined.
///
/// Of a [`UserOperator`] it asks less: the function need not be associative.
///
/// ```no_run
/// use ropeway::{Operator, Reproducible};
///
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// let mut energy = [0.1 * f64::from(world.rank())];
/// world.allreduce_in_place(&mut energy, Reproducible(Operator::Sum))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reproducible<O>(pub O);

/// A user-defined operator: a function that makes `left ∘ right` of `left`.
///
/// Elements may be of any [`Plain`] type and size. Like all operators it has to be associative: each node combines what its own ranks
/// have, and then the nodes' results are combined. What is not associative, or only nearly so as with floats, is combined one by one
/// in the order of ranks, as a loop in one process would, by [`Reproducible`]`(&operator)`.
///
/// It need not commute: operands keep the order of ranks, whose blocks usually live on one node each. Where ranks of a communicator
/// alternate between nodes, each node needs all inputs for that, unless the operator says that it is
/// [`commutative`](Self::commutative).
///
/// The function runs in the ranks' processes, never in the daemon: in any of them, in threads that wait for the reduction,
/// start it, or test it, and in one of Ropeway's own while the program computes. So it must be the same on all ranks, depend on
/// nothing but its arguments, and not use Ropeway. If it panics its process is aborted, for the others wait for what it was
/// to combine; they get [`Error::RankFailed`](crate::Error::RankFailed).
///
/// An operator is made once and kept. Calls that are not registered, such as [`allreduce`](crate::Communicator::allreduce), share
/// what is kept for calls alike with calls by the same operator or a clone of it, on all ranks alike.
///
/// ```no_run
/// use ropeway::UserOperator;
///
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// // Affine maps x ↦ a·x + b, one after the other.
/// let after = UserOperator::new(|first: &mut [f64; 2], then: &[f64; 2]| {
///     *first = [then[0] * first[0], then[0] * first[1] + then[1]];
/// });
/// let mut map = [[2.0, f64::from(world.rank())]];
/// world.scan_in_place(&mut map, &after)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct UserOperator<T: Plain> {
    function: Function,
    is_commutative: bool,
    element: PhantomData<fn(&mut T)>,
}

impl<T: Plain + Send> UserOperator<T> {
    /// The operator that `combine` is: it makes `left ∘ right` of its first argument. It is associative.
    pub fn new(combine: impl Fn(&mut T, &T) + Send + Sync + 'static) -> Self {
        let combine = Arc::new(combine);
        let prepare = move || Box::new(Workplace::new(combine.clone())) as Box<dyn UserFunction>;
        Self { function: Function(Arc::new(prepare)), is_commutative: false, element: PhantomData }
    }

    /// The same of one that also commutes: `left ∘ right` is `right ∘ left`.
    ///
    /// It is faster where ranks alternate between nodes: each node sends its ranks' result instead of all their inputs.
    pub fn commutative(combine: impl Fn(&mut T, &T) + Send + Sync + 'static) -> Self {
        Self { is_commutative: true, ..Self::new(combine) }
    }
}

impl<T: Plain> fmt::Debug for UserOperator<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserOperator").finish_non_exhaustive()
    }
}

/// How a collective combines. Calls that combine equally are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combining {
    pub(super) combination: Combination,
    pub(super) is_reproducible: bool,
    pub(super) function: Option<Function>,
}

/// A function of the program, whatever its elements are. It equals its clones.
#[derive(Clone)]
pub(crate) struct Function(Arc<dyn Fn() -> Box<dyn UserFunction> + Send + Sync>);

impl Function {
    /// With memory to work on.
    pub(crate) fn prepare(&self) -> Box<dyn UserFunction> {
        self.0()
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Function {}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").finish_non_exhaustive()
    }
}

/// Where one thread at a time combines elements.
struct Workplace<T, F> {
    combine: Arc<F>,
    left: Vec<T>,
    right: Vec<T>,
}

impl<T: Plain, F> Workplace<T, F> {
    fn new(combine: Arc<F>) -> Self {
        let elements = (WORKPLACE_BYTES / element_bytes::<T>()).max(1);
        // Not by way of the stack: an element may be larger.
        let room = || T::new_vec_zeroed(elements).expect("there is memory for two elements, or some KiB");
        Self { combine, left: room(), right: room() }
    }
}

impl<T: Plain + Send, F: Fn(&mut T, &T) + Send + Sync> UserFunction for Workplace<T, F> {
    fn room(&mut self) -> [&mut [u8]; 2] {
        [self.left.as_mut_bytes(), self.right.as_mut_bytes()]
    }

    fn combine(&mut self, bytes: usize) {
        let pairs = self.left.iter_mut().zip(&self.right).take(bytes / element_bytes::<T>());
        let combined = catch_unwind(AssertUnwindSafe(|| pairs.for_each(|(left, right)| (self.combine)(left, right))));
        if combined.is_err() {
            // Nobody else can do this piece any more, and whose buffers are in use can't be told either.
            // Not by `eprintln`, which panics where nobody reads it.
            let _ = io::stderr().write_all(PANICKED.as_bytes());
            process::abort();
        }
    }
}

const PANICKED: &str =
    "ropeway: a user-defined operator has panicked; the other ranks wait for its result, so this one ends\n";

/// Both arrays stay in the first cache, beside what comes next.
const WORKPLACE_BYTES: usize = 8 << 10;

mod sealed {
    use super::{Combination, Combining, Operator, Plain, Reducible, Reproducible, UserOperator};

    /// Keeps [`Combine`](super::Combine) ours: how elements are combined, only this crate and the daemon know.
    pub trait Sealed<T> {
        fn combining(self) -> Combining;
    }

    impl<T: Reducible> Sealed<T> for Operator {
        fn combining(self) -> Combining {
            let combination = Combination::Predefined(self.code(), T::ELEMENT.code());
            Combining { combination, is_reproducible: false, function: None }
        }
    }

    impl<T, O: Sealed<T>> Sealed<T> for Reproducible<O> {
        fn combining(self) -> Combining {
            Combining { is_reproducible: true, ..self.0.combining() }
        }
    }

    impl<T: Plain> Sealed<T> for &UserOperator<T> {
        fn combining(self) -> Combining {
            let function = Some(self.function.clone());
            let combination = Combination::User { is_commutative: self.is_commutative };
            Combining { combination, is_reproducible: false, function }
        }
    }
}
