//! Enums whose variants have fixed numbers, which records, tables and logs contain.

/// Defines an enum, all its variants in numeric order, and the variant of a number; and their names, if each has one.
#[macro_export]
macro_rules! numbered {
    ($(#[$meta:meta])* pub enum $Enum:ident: $Number:ident {
        $($(#[$doc:meta])* $Variant:ident = $number:literal,)*
    }) => {
        $(#[$meta])*
        #[repr($Number)]
        pub enum $Enum {
            $($(#[$doc])* $Variant = $number,)*
        }

        impl $Enum {
            /// All variants, in numeric order.
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$Variant),*];

            /// The variant with this number.
            pub const fn from_number(number: $Number) -> Option<Self> {
                match number {
                    $($number => Some(Self::$Variant),)*
                    _ => None,
                }
            }
        }
    };
    ($(#[$meta:meta])* pub enum $Enum:ident: $Number:ident {
        $($(#[$doc:meta])* $Variant:ident = $number:literal => $name:literal,)*
    }) => {
        $crate::numbered! {
            $(#[$meta])*
            pub enum $Enum: $Number {
                $($(#[$doc])* $Variant = $number,)*
            }
        }

        impl $Enum {
            /// The name for users and in machine-readable output.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)*
                }
            }
        }
    };
}
