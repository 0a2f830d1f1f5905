//! Any number of ranks, brought down to a power of two.

use crate::step::Side;

/// Neighbors fold into pairs until a power of two is left, the core.
///
/// With s ranks beyond a power of two the first 2s form pairs; one of each pair, its *proxy*, takes the other's operand
/// and acts for both. Pairs are neighbors, so rank order is kept.
///
/// ```text
/// size 6:   0─1   2─3   4  5
/// core:      0     1    2  3
/// ```
///
/// Source: Rabenseifner, Optimization of collective reduction operations, ICCS 2004, §4; as in Thakur et al. 2005, §4.4.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    core: u32,
    pairs: u32,
    preferred: Option<u32>,
}

/// What a rank is in a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Role {
    /// It gives its operand away.
    Folded { proxy: u32 },
    /// It acts for itself and the other one of its pair, whose operand belongs on that side.
    Proxy { core: u32, folded: u32, side: Side },
    /// It acts for itself.
    Single { core: u32 },
}

impl Fold {
    /// Of a pair the second acts, unless the first is `preferred`.
    pub const fn new(size: u32, preferred: Option<u32>) -> Self {
        let core = 1 << size.ilog2();
        Self { core, pairs: size - core, preferred }
    }

    /// How many act: a power of two.
    pub const fn core(&self) -> u32 {
        self.core
    }

    /// How many do not.
    pub const fn folded(&self) -> u32 {
        self.pairs
    }

    /// What a rank is.
    pub fn role(&self, rank: u32) -> Role {
        if rank >= 2 * self.pairs {
            return Role::Single { core: rank - self.pairs };
        }
        let core = rank / 2;
        let proxy = self.rank(core);
        let side = if proxy.is_multiple_of(2) { Side::Right } else { Side::Left };
        if rank == proxy { Role::Proxy { core, folded: rank ^ 1, side } } else { Role::Folded { proxy } }
    }

    /// Who acts as this member of the core.
    pub fn rank(&self, core: u32) -> u32 {
        if core >= self.pairs {
            core + self.pairs
        } else if self.preferred == Some(2 * core) {
            2 * core
        } else {
            2 * core + 1
        }
    }

    /// The first of the ranks that a member of the core acts for; they are consecutive.
    pub const fn first_rank(&self, core: u32) -> u32 {
        if core < self.pairs { 2 * core } else { core + self.pairs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_acted_for_once() {
        for size in 1..70 {
            for preferred in [None, Some(0), Some(size / 2)] {
                let fold = Fold::new(size, preferred);
                let mut acting = 0;
                for rank in 0..size {
                    match fold.role(rank) {
                        Role::Folded { proxy } => {
                            assert!(matches!(fold.role(proxy), Role::Proxy { folded, .. } if folded == rank));
                            assert_ne!(preferred, Some(rank));
                        }
                        Role::Proxy { core, folded, side } => {
                            acting += 1;
                            assert_eq!(fold.rank(core), rank);
                            assert_eq!(side == Side::Left, folded < rank);
                        }
                        Role::Single { core } => {
                            acting += 1;
                            assert_eq!(fold.rank(core), rank);
                        }
                    }
                }
                assert_eq!(acting, fold.core());
            }
        }
    }
}
