//! Enumerations whose variants have names.

/// Defines an enumeration together with the name of each variant:
///
/// ```text
/// det_post_types::named! {
///     /// The copies of a frame's bytes.
///     #[derive(Clone, Copy)]
///     pub enum Transfer {
///         /// From host memory to host memory.
///         HostCopy => "host_copy",
///         /// From the host to a device.
///         Upload => "upload",
///     }
///     /// The name in reports.
///     pub fn name;
/// }
/// ```
///
/// The type has the constant `ALL`, its variants in order, and the function that is declared
/// below it, which returns the name. A variant may have a number: `Debug = 10 => "debug"`.
#[macro_export]
macro_rules! named {
    (
        $(#[$type_meta:meta])*
        $visibility:vis enum $type:ident {
            $($(#[$meta:meta])* $variant:ident $(= $number:literal)? => $name:literal,)+
        }
        $(#[$name_meta:meta])*
        $name_visibility:vis fn $function:ident;
    ) => {
        $(#[$type_meta])*
        $visibility enum $type {
            $($(#[$meta])* $variant $(= $number)?,)+
        }

        impl $type {
            /// Every variant, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            $(#[$name_meta])*
            $name_visibility const fn $function(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}
