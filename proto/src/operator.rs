//! What reductions combine, and how: element types and predefined operators.
//!
//! Both cross between processes as one byte each. Elements themselves are in the byte order of their node.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number as it stands in memory. The codes are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the variants are named after the Rust types they are")]
pub enum Scalar {
    I8 = 0,
    I16 = 1,
    I32 = 2,
    I64 = 3,
    U8 = 4,
    U16 = 5,
    U32 = 6,
    U64 = 7,
    F32 = 8,
    F64 = 9,
}

impl Scalar {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 10] =
        [Self::I8, Self::I16, Self::I32, Self::I64, Self::U8, Self::U16, Self::U32, Self::U64, Self::F32, Self::F64];

    /// The code as it travels.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The type with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|scalar| scalar.code() == code)
    }

    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether it is a whole number.
    pub fn is_integer(self) -> bool {
        !matches!(self, Self::F32 | Self::F64)
    }
}

/// What an array consists of: numbers, or numbers that say where they are.
///
/// A located number is `#[repr(C)] struct { value: T, index: u64 }`, 16 bytes whatever `T` is:
///
/// ```text
///  0       size of T        8        16
///  +-------+----------------+--------+
///  | value |    anything    | index  |
///  +-------+----------------+--------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElementType {
    /// The number, or the number that is located.
    pub scalar: Scalar,
    /// Whether an index belongs to each number.
    pub is_located: bool,
}

impl ElementType {
    /// Bytes of a located number.
    pub const LOCATED_BYTES: usize = 16;
    /// Where the index of a located number begins.
    pub const INDEX_OFFSET: usize = 8;

    const LOCATED: u8 = 0x10;

    /// Plain numbers.
    pub fn plain(scalar: Scalar) -> Self {
        Self { scalar, is_located: false }
    }

    /// Numbers with an index.
    pub fn located(scalar: Scalar) -> Self {
        Self { scalar, is_located: true }
    }

    /// All of them: the plain ones, then the located ones.
    pub fn all() -> impl Iterator<Item = Self> {
        Scalar::ALL.into_iter().map(Self::plain).chain(Scalar::ALL.into_iter().map(Self::located))
    }

    /// Bytes of one element, and the distance between two.
    pub fn bytes(self) -> usize {
        if self.is_located { Self::LOCATED_BYTES } else { self.scalar.bytes() }
    }

    /// The code as it travels: that of the scalar, and a bit for located ones.
    pub fn code(self) -> u8 {
        self.scalar.code() | if self.is_located { Self::LOCATED } else { 0 }
    }

    /// The type with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        let scalar = Scalar::from_code(code & !Self::LOCATED)?;
        Some(Self { scalar, is_located: code & Self::LOCATED != 0 })
    }
}

/// How two elements become one. The codes are stable; names are written `min-loc`.
///
/// All are commutative. All but sums and products of floats are associative to the bit (located numbers if no index occurs
/// twice), so their results do not depend on the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Operator {
    /// `left + right`. Integers wrap.
    Sum = 0,
    /// `left × right`. Integers wrap.
    Prod = 1,
    /// The lesser one, −0 being less than +0. `NAN` if one of the two is a NaN.
    Min = 2,
    /// The greater one, −0 being less than +0. `NAN` if one of the two is a NaN.
    Max = 3,
    /// Bitwise and, of integers.
    BitAnd = 4,
    /// Bitwise or, of integers.
    BitOr = 5,
    /// Bitwise exclusive or, of integers.
    BitXor = 6,
    /// 1 if both integers are not zero, else 0.
    And = 7,
    /// 1 if an integer is not zero, else 0.
    Or = 8,
    /// 1 if exactly one integer is not zero, else 0.
    Xor = 9,
    /// The located number that is less. Of equal ones that with the lower index; −0 equals +0. A NaN precedes every number and
    /// equals every NaN, so the first NaN is found.
    MinLoc = 10,
    /// The located number that is greater. Of equal ones that with the lower index; −0 equals +0. A NaN precedes every number
    /// and equals every NaN, so the first NaN is found.
    MaxLoc = 11,
}

/// A name that no operator has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not an operator")]
pub struct UnknownOperator(pub String);

impl Operator {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 12] = [
        Self::Sum,
        Self::Prod,
        Self::Min,
        Self::Max,
        Self::BitAnd,
        Self::BitOr,
        Self::BitXor,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::MinLoc,
        Self::MaxLoc,
    ];

    /// The code as it travels.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The operator with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.code() == code)
    }

    /// Whether it combines such elements. Whoever takes the two from somebody else asks before they are used.
    pub fn is_defined_for(self, element: ElementType) -> bool {
        match self {
            Self::Sum | Self::Prod | Self::Min | Self::Max => !element.is_located,
            Self::BitAnd | Self::BitOr | Self::BitXor | Self::And | Self::Or | Self::Xor => {
                !element.is_located && element.scalar.is_integer()
            }
            Self::MinLoc | Self::MaxLoc => element.is_located,
        }
    }

    /// Whether the two may change places. All predefined operators allow it.
    pub fn is_commutative(self) -> bool {
        true
    }

    /// Its name, as people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::BitAnd => "bit-and",
            Self::BitOr => "bit-or",
            Self::BitXor => "bit-xor",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::MinLoc => "min-loc",
            Self::MaxLoc => "max-loc",
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Operator {
    type Err = UnknownOperator;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|operator| operator.name() == text);
        found.ok_or_else(|| UnknownOperator(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_survive_as_codes_and_names() {
        for (code, operator) in (0..).zip(Operator::ALL) {
            assert_eq!(operator.code(), code, "codes are stable");
            assert_eq!(Operator::from_code(code), Some(operator));
            assert_eq!(operator.to_string().parse(), Ok(operator));
        }
        assert_eq!(Operator::from_code(12), None);
        assert_eq!("minloc".parse::<Operator>(), Err(UnknownOperator("minloc".into())));
        assert_eq!(format!("{:>8}", Operator::BitXor), " bit-xor");
    }

    #[test]
    fn element_types_survive_as_codes() {
        for (code, scalar) in (0..).zip(Scalar::ALL) {
            assert_eq!(scalar.code(), code, "codes are stable");
        }
        let known = (0..=u8::MAX).filter_map(|code| Some((code, ElementType::from_code(code)?)));
        let expected = ElementType::all().map(|element| (element.code(), element));
        assert!(known.eq(expected), "other codes are refused");
        assert_eq!(ElementType::located(Scalar::F64).code(), 0x19);
    }

    #[test]
    fn a_located_number_is_a_struct_of_c() {
        #[repr(C)]
        struct Located<T> {
            value: T,
            index: u64,
        }
        macro_rules! check {
            ($($scalar:ident $type:ty),*) => {$(
                assert_eq!(std::mem::offset_of!(Located<$type>, value), 0);
                assert_eq!(std::mem::offset_of!(Located<$type>, index), ElementType::INDEX_OFFSET);
                assert_eq!(ElementType::located(Scalar::$scalar).bytes(), size_of::<Located<$type>>());
                assert_eq!(ElementType::plain(Scalar::$scalar).bytes(), size_of::<$type>());
            )*};
        }
        check!(I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64);
    }

    #[test]
    fn operators_are_defined_where_they_make_sense() {
        let (integer, float) = (ElementType::plain(Scalar::U16), ElementType::plain(Scalar::F32));
        let (index, located) = (ElementType::located(Scalar::U16), ElementType::located(Scalar::F32));
        let table = Operator::ALL.map(|op| [integer, float, index, located].map(|element| op.is_defined_for(element)));
        let (any, integers, pairs) =
            ([true, true, false, false], [true, false, false, false], [false, false, true, true]);
        assert_eq!(table[..4], [any; 4]);
        assert_eq!(table[4..10], [integers; 6]);
        assert_eq!(table[10..], [pairs; 2]);
    }

    #[test]
    fn all_integers_have_the_same_operators_and_all_floats_too() {
        for element in ElementType::all() {
            let alike = if element.scalar.is_integer() { Scalar::I8 } else { Scalar::F64 };
            let alike = ElementType { scalar: alike, ..element };
            assert!(Operator::ALL.iter().all(|op| op.is_defined_for(element) == op.is_defined_for(alike)));
        }
        assert_eq!(Scalar::ALL.into_iter().filter(|scalar| !scalar.is_integer()).count(), 2);
    }
}
