//! Enums whose variants have names, for tables, exports and options.

/// Defines an enum, the list of its variants, and their names. The list has the order of the definition unless another one
/// is given.
#[macro_export]
macro_rules! named {
    (in order [$($Ordered:ident),*]; $(#[$meta:meta])* pub enum $Enum:ident {
        $($(#[$attribute:meta])* $Variant:ident => $name:literal,)*
    }) => {
        $(#[$meta])*
        pub enum $Enum {
            $($(#[$attribute])* $Variant,)*
        }

        impl $Enum {
            /// Every variant, in table order; profiles contain positions in it.
            pub const ALL: [Self; [$(stringify!($Ordered)),*].len()] = [$(Self::$Ordered),*];

            /// Name in tables, CSV and JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)*
                }
            }
        }
    };
    ($(#[$meta:meta])* pub enum $Enum:ident {
        $($(#[$attribute:meta])* $Variant:ident => $name:literal,)*
    }) => {
        $crate::named! {
            in order [$($Variant),*];
            $(#[$meta])*
            pub enum $Enum {
                $($(#[$attribute])* $Variant => $name,)*
            }
        }
    };
}
