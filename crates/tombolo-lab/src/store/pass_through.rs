//! Stores around a store: every call is handed on to the field `store`, and a macro of the outer store says
//! what else happens.
//!
//! That macro gets `self name (arguments) call`, where `call` is the call of the inner store; its last arm
//! leaves all other calls as they are: `($store:ident $name:ident $arguments:tt $call:expr) => { $call };`.
//! Everything is inlined: a call that is only handed on costs nothing. Not here: the list of the calls
//! (`for_each_store_call!`).

/// What an `impl<S: Store> Store for ...` holds: the associated items are those of `S`, and each call is
/// what `$around!` makes of the inner store's.
macro_rules! pass_through {
    ($around:ident) => {
        type Pin<'a>
            = S::Pin<'a>
        where
            Self: 'a;

        const UNDO: bool = S::UNDO;

        tombolo_storage::for_each_store_call! { handed_on $around }
    };
}

/// One call.
macro_rules! handed_on {
    (
        $around:ident $name:ident ref [$($generic:tt)*] ($($argument:ident: $type:ty),*) -> $result:ty
    ) => {
        #[inline(always)]
        fn $name<$($generic)*>(&self, $($argument: $type),*) -> $result {
            $around!(self $name ($($argument),*) self.store.$name($($argument),*))
        }
    };
    (
        $around:ident $name:ident mut [$($generic:tt)*] ($($argument:ident: $type:ty),*) -> $result:ty
    ) => {
        #[inline(always)]
        fn $name<$($generic)*>(&mut self, $($argument: $type),*) -> $result {
            $around!(self $name ($($argument),*) self.store.$name($($argument),*))
        }
    };
}
