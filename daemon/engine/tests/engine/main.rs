//! The engine's behaviour, one statement a test: engines of several nodes over links that the test holds in its hands.

mod absence;
mod agreement;
mod cancellation;
mod channels;
mod cluster;
mod collective_failures;
mod collectives;
mod direct;
mod due;
mod endings;
mod failures;
mod liars;
mod matching;
mod one_shot;
mod rounds;
mod violations;
mod wired;
