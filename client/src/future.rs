//! Running operations as futures.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::operation::Operation;
use crate::request::Persistent;
use crate::{
    Active, ActiveExchange, Buffer, Error, Pending, PendingCollective, PendingNeighborCollective, Plain, Status,
};

/// An [`Active`] operation that is awaited.
///
/// Dropping it lets the operation run on; [`Request::active`](crate::Request::active) finds it again.
#[must_use = "futures do nothing unless they are awaited"]
pub struct ActiveFuture<'a> {
    request: &'a mut Persistent,
}

impl<'a> IntoFuture for Active<'a> {
    type Output = Result<Status, Error>;
    type IntoFuture = ActiveFuture<'a>;

    fn into_future(self) -> ActiveFuture<'a> {
        ActiveFuture { request: self.into_request() }
    }
}

impl Future for ActiveFuture<'_> {
    type Output = Result<Status, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        poll(self.request.operation_mut(), context)
    }
}

impl Drop for ActiveFuture<'_> {
    fn drop(&mut self) {
        self.request.operation().forget_waker();
    }
}

/// An [`ActiveExchange`] that is awaited.
///
/// Dropping it lets the messages travel on; [`NeighborCollective::active`](crate::NeighborCollective::active) finds them again.
#[must_use = "futures do nothing unless they are awaited"]
pub struct ExchangeFuture<'a> {
    exchange: ActiveExchange<'a>,
}

impl<'a> IntoFuture for ActiveExchange<'a> {
    type Output = Result<(), Error>;
    type IntoFuture = ExchangeFuture<'a>;

    fn into_future(self) -> ExchangeFuture<'a> {
        ExchangeFuture { exchange: self }
    }
}

impl Future for ExchangeFuture<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        poll(&mut self.exchange, context)
    }
}

impl Drop for ExchangeFuture<'_> {
    fn drop(&mut self) {
        self.exchange.forget_waker();
    }
}

/// A [`Pending`] operation that is awaited. It gives the buffer back.
///
/// Dropping it withdraws the operation if it has not matched yet.
#[must_use = "futures do nothing unless they are awaited"]
pub struct PendingFuture<T: Plain> {
    pending: Option<Pending<T>>,
}

impl<T: Plain> IntoFuture for Pending<T> {
    type Output = Result<(Buffer<T>, Status), Error>;
    type IntoFuture = PendingFuture<T>;

    fn into_future(self) -> PendingFuture<T> {
        PendingFuture { pending: Some(self) }
    }
}

impl<T: Plain> Future for PendingFuture<T> {
    type Output = Result<(Buffer<T>, Status), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let pending = self.pending.as_mut().expect("a future that has ended is not polled again");
        let ended = match pending.outcome() {
            Some(status) => Ok(status),
            None => match poll(pending.operation_mut(), context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(ended) => ended,
            },
        };
        let pending = self.pending.take();
        Poll::Ready(ended.and_then(|status| Ok(pending.ok_or(Error::Inactive)?.into_ended(status))))
    }
}

/// Nothing in it is pinned, whatever the elements are.
impl<T: Plain> Unpin for PendingFuture<T> {}

impl<T: Plain> Drop for PendingFuture<T> {
    fn drop(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.operation_mut().forget_waker();
        }
    }
}

/// A [`PendingCollective`] that is awaited. It fills the output.
///
/// Dropping it is as good as dropping that: the collective ends by itself, and the output stays as it was.
#[must_use = "futures do nothing unless they are awaited"]
pub struct CollectiveFuture<'a, T: Plain> {
    pending: PendingCollective<'a, T>,
}

impl<'a, T: Plain> IntoFuture for PendingCollective<'a, T> {
    type Output = Result<(), Error>;
    type IntoFuture = CollectiveFuture<'a, T>;

    fn into_future(self) -> CollectiveFuture<'a, T> {
        CollectiveFuture { pending: self }
    }
}

impl<T: Plain> Future for CollectiveFuture<'_, T> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        poll(&mut self.pending, context)
    }
}

impl<T: Plain> Drop for CollectiveFuture<'_, T> {
    fn drop(&mut self) {
        self.pending.forget_waker();
    }
}

/// A [`PendingNeighborCollective`] that is awaited. It fills the output as messages come.
///
/// Dropping it is as good as dropping that: the messages travel on.
#[must_use = "futures do nothing unless they are awaited"]
pub struct NeighborCollectiveFuture<'a, T: Plain> {
    pending: PendingNeighborCollective<'a, T>,
}

impl<'a, T: Plain> IntoFuture for PendingNeighborCollective<'a, T> {
    type Output = Result<(), Error>;
    type IntoFuture = NeighborCollectiveFuture<'a, T>;

    fn into_future(self) -> NeighborCollectiveFuture<'a, T> {
        NeighborCollectiveFuture { pending: self }
    }
}

impl<T: Plain> Future for NeighborCollectiveFuture<'_, T> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        poll(&mut self.pending, context)
    }
}

impl<T: Plain> Drop for NeighborCollectiveFuture<'_, T> {
    fn drop(&mut self) {
        self.pending.forget_waker();
    }
}

/// What a future asks about.
trait Awaited {
    type Outcome;
    /// The outcome, if it has ended.
    fn test(&mut self) -> Result<Option<Self::Outcome>, Error>;
    /// Has this task woken when it gets on. False if it has already.
    fn watch(&mut self, waker: &Waker) -> Result<bool, Error>;
}

impl Awaited for Operation {
    type Outcome = Status;

    fn test(&mut self) -> Result<Option<Status>, Error> {
        self.test()
    }

    fn watch(&mut self, waker: &Waker) -> Result<bool, Error> {
        Self::watch(self, Some(waker))
    }
}

impl Awaited for ActiveExchange<'_> {
    type Outcome = ();

    fn test(&mut self) -> Result<Option<()>, Error> {
        Ok(self.test()?.then_some(()))
    }

    fn watch(&mut self, waker: &Waker) -> Result<bool, Error> {
        self.watch(Some(waker))
    }
}

impl<T: Plain> Awaited for PendingCollective<'_, T> {
    type Outcome = ();

    fn test(&mut self) -> Result<Option<()>, Error> {
        Ok(self.test()?.then_some(()))
    }

    fn watch(&mut self, waker: &Waker) -> Result<bool, Error> {
        Self::watch(self, waker)
    }
}

impl<T: Plain> Awaited for PendingNeighborCollective<'_, T> {
    type Outcome = ();

    fn test(&mut self) -> Result<Option<()>, Error> {
        Ok(self.test()?.then_some(()))
    }

    fn watch(&mut self, waker: &Waker) -> Result<bool, Error> {
        Self::watch(self, waker)
    }
}

/// Whoever awaits waits: what there is to copy of a large message is copied here.
fn poll<A: Awaited>(awaited: &mut A, context: &mut Context<'_>) -> Poll<Result<A::Outcome, Error>> {
    loop {
        if let Some(ended) = awaited.test().transpose() {
            return Poll::Ready(ended);
        }
        match awaited.watch(context.waker()) {
            Ok(true) => return Poll::Pending,
            // It has got on meanwhile.
            Ok(false) => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

impl fmt::Debug for ActiveFuture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActiveFuture").field(self.request).finish()
    }
}

impl fmt::Debug for ExchangeFuture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExchangeFuture").field(&self.exchange).finish()
    }
}

impl<T: Plain> fmt::Debug for CollectiveFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CollectiveFuture").field(&self.pending).finish()
    }
}

impl<T: Plain> fmt::Debug for NeighborCollectiveFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NeighborCollectiveFuture").field(&self.pending).finish()
    }
}

impl<T: Plain> fmt::Debug for PendingFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingFuture").field(&self.pending).finish()
    }
}
