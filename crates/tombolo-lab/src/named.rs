//! Enums whose values have a name on the command line or in results.

/// Declares one, with all its values, the name of each and the value of a name.
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $enum:ident by $name:ident {
            $($(#[$doc:meta])* $value:ident = $word:literal,)*
        }
    ) => {
        $(#[$attribute])*
        $visible enum $enum {
            $($(#[$doc])* $value,)*
        }

        impl $enum {
            /// All of them, in their order.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$value),*];

            /// The name of each.
            pub const NAMES: [&str; Self::ALL.len()] = [$($word),*];

            /// Its name.
            pub const fn $name(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)*
                }
            }

            /// The one of this name.
            pub fn find(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.$name() == name)
            }
        }
    };
}
