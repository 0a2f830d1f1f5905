//! Running operations as futures.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::operation::Operation;
use crate::request::Persistent;
use crate::{Active, ActiveExchange, Buffer, Error, Pending, Plain, Status};

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
        loop {
            match self.exchange.test() {
                Ok(false) => {}
                ended => return Poll::Ready(ended.map(drop)),
            }
            match self.exchange.watch(Some(context.waker())) {
                Ok(true) => return Poll::Pending,
                Ok(false) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
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

/// Whoever awaits waits: what there is to copy of a large message is copied here.
fn poll(operation: &mut Operation, context: &mut Context<'_>) -> Poll<Result<Status, Error>> {
    loop {
        match operation.test() {
            Ok(None) => {}
            Ok(Some(status)) => return Poll::Ready(Ok(status)),
            Err(error) => return Poll::Ready(Err(error)),
        }
        match operation.watch(Some(context.waker())) {
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

impl<T: Plain> fmt::Debug for PendingFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingFuture").field(&self.pending).finish()
    }
}
