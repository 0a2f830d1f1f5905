//! How many files may be open: each rank costs the tool and its daemons some, and shells give their programs few.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// What we were given: the soft limit and the hard one.
static GIVEN: OnceLock<(rlim_t, rlim_t)> = OnceLock::new();

/// Lets this process open as many as the system allows. If it does not, the error comes when one is missing.
pub(crate) fn raise() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok()
    {
        let _ = GIVEN.set((soft, hard));
    }
}

/// While this exists there is the limit again that we were given, for what is started: programs that use `select` break with files
/// above 1023, and some close as many as there may be.
pub(super) struct AsGiven(rlim_t);

impl AsGiven {
    /// `None` if it is too low for us now. `next`: the lowest number that is free. The daemons of `nodes`, which are threads of ours, open files
    /// meanwhile, for each of the `ranks` that were started before, and for each other.
    pub(super) fn restore(next: i32, ranks: usize, nodes: u32) -> Option<Self> {
        let &(soft, hard) = GIVEN.get()?;
        let (ranks, nodes) = (ranks as rlim_t, rlim_t::from(nodes));
        // Of each two nodes one accepts a link and a wire.
        let accepted = nodes * nodes.saturating_sub(1);
        let is_enough = soft > next as rlim_t + FEW + OPENED_TO_JOIN * ranks + accepted;
        (is_enough && setrlimit(Resource::RLIMIT_NOFILE, soft, hard).is_ok()).then_some(Self(hard))
    }
}

impl Drop for AsGiven {
    fn drop(&mut self) {
        let &mut Self(hard) = self;
        // The soft limit may always be raised to the hard one.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// A daemon opens so many when a rank joins.
const OPENED_TO_JOIN: rlim_t = 2;
/// More than are opened otherwise while a rank is being started.
const FEW: rlim_t = 64;
