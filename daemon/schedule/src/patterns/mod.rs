//! Who talks to whom: pure functions of rank and size, apart from what is sent.

mod cayley;
mod digits;
mod fold;
mod inorder;
mod tree;

pub use cayley::Cayley;
pub use digits::{Digit, digits_needed, power_of};
pub use fold::{Fold, Role};
pub use inorder::InorderTree;
pub use tree::{KnomialTree, Rotation};
