//! What runs as a future.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{
    Active, ActiveExchange, Buffer, Error, Pending, PendingCollective, PendingNeighborCollective, Plain, Status,
};

/// Something that runs and is awaited.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Awaiting<A: sealed::Awaited>(A);

/// An [`Active`] operation that is awaited.
///
/// Dropping it lets the operation run on; [`Request::active`](crate::Request::active) finds it again.
pub type ActiveFuture<'a> = Awaiting<Active<'a>>;

/// An [`ActiveExchange`] that is awaited.
///
/// Dropping it lets the messages travel on; [`NeighborCollective::active`](crate::NeighborCollective::active) finds them again.
pub type ExchangeFuture<'a> = Awaiting<ActiveExchange<'a>>;

/// A [`Pending`] operation that is awaited. It gives the buffer back.
///
/// Dropping it withdraws the operation if it has not matched yet.
pub type PendingFuture<T> = Awaiting<Pending<T>>;

/// A [`PendingCollective`] that is awaited. It fills the output.
///
/// Dropping it is as good as dropping that: the collective ends by itself, and the output stays as it was.
pub type CollectiveFuture<'a, T> = Awaiting<PendingCollective<'a, T>>;

/// A [`PendingNeighborCollective`] that is awaited. It fills the output as messages come.
///
/// Dropping it is as good as dropping that: the messages travel on.
pub type NeighborCollectiveFuture<'a, T> = Awaiting<PendingNeighborCollective<'a, T>>;

impl<A: sealed::Awaited> Future for Awaiting<A> {
    type Output = Result<A::Outcome, Error>;

    /// Whoever awaits waits: what there is to copy of a large message is copied here.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(ended) = self.0.take().transpose() {
                return Poll::Ready(ended);
            }
            match self.0.seen().0.watch(context.waker()) {
                Ok(true) => return Poll::Pending,
                // It has got on meanwhile.
                Ok(false) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// Nothing in it is pinned, whatever the elements are.
impl<A: sealed::Awaited> Unpin for Awaiting<A> {}

impl<A: sealed::Awaited> Drop for Awaiting<A> {
    fn drop(&mut self) {
        self.0.seen().0.forget_waker();
    }
}

/// What awaiting these gives, and how it is taken once they have ended.
macro_rules! awaited {
    ($([$($of:tt)*] $running:ty => $outcome:ty, $take:expr;)*) => {$(
        impl<$($of)*> sealed::Awaited for $running {
            type Outcome = $outcome;

            fn take(&mut self) -> Result<Option<$outcome>, Error> {
                let take: fn(&mut Self) -> _ = $take;
                take(self)
            }
        }

        impl<$($of)*> IntoFuture for $running {
            type Output = Result<$outcome, Error>;
            type IntoFuture = Awaiting<Self>;

            fn into_future(self) -> Awaiting<Self> {
                Awaiting(self)
            }
        }
    )*};
}

awaited! {
    ['a] Active<'a> => Status, |active| active.test();
    ['a] ActiveExchange<'a> => (), |active| Ok(active.test()?.then_some(()));
    [T: Plain] Pending<T> => (Buffer<T>, Status), |pending| {
        Ok(pending.test()?.map(|status| (pending.take_buffer(), status)))
    };
    ['a, T: Plain] PendingCollective<'a, T> => (), |pending| Ok(pending.test()?.then_some(()));
    ['a, T: Plain] PendingNeighborCollective<'a, T> => (), |pending| Ok(pending.test()?.then_some(()));
}

mod sealed {
    use crate::{Error, Running};

    /// What a future asks about.
    pub trait Awaited: Running {
        /// What awaiting it gives.
        type Outcome;
        /// That, if it has ended.
        fn take(&mut self) -> Result<Option<Self::Outcome>, Error>;
    }
}
