//! What a message may be made of.

use ropeway_proto::limits::BUFFER_ALIGN;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Plain data: every pattern of bits is a value, no padding, no references.
///
/// All integers and floats are plain, and arrays of them. A struct becomes plain by three derives:
///
/// ```
/// use ropeway::zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Particle {
///     position: [f64; 3],
///     mass: f64,
/// }
/// # fn plain<T: ropeway::Plain>() {}
/// # plain::<Particle>();
/// ```
///
/// (In a crate that uses the derives, `zerocopy` must be nameable: depend on it, or `use ropeway::zerocopy;` and add
/// `#[zerocopy(crate = "ropeway::zerocopy")]` to the struct.)
///
/// References are not plain, nor is a struct with padding, whose bytes would be undefined:
///
/// ```compile_fail,E0277
/// # fn plain<T: ropeway::Plain>() {}
/// plain::<&str>();
/// ```
///
/// ```compile_fail
/// # use ropeway::zerocopy::{FromBytes, Immutable, IntoBytes};
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Padded {
///     flag: u8,
///     value: f64,
/// }
/// ```
pub trait Plain: Copy + FromBytes + IntoBytes + Immutable + 'static {}

impl<T: Copy + FromBytes + IntoBytes + Immutable + 'static> Plain for T {}

/// Bytes of one element. Elements without bytes are refused when the program is compiled.
pub(crate) const fn element_bytes<T: Plain>() -> usize {
    const {
        assert!(size_of::<T>() > 0, "elements without bytes can't be sent");
        assert!(align_of::<T>() as u64 <= BUFFER_ALIGN, "elements may be aligned to a cache line at most");
    }
    size_of::<T>()
}
