//! Recognises the functions that are calls of a category, by their names.
//!
//! A store's calls are the methods of a trait, so one rule holds for every store. Names are as
//! `rustc-demangle` writes them without hashes. Where a trait is implemented shows in three forms:
//! `<a::Type as b::Trait>::method`, `a::<impl b::Trait for c::Type>::method`, and for a method with
//! a body in the trait `b::Trait::method`.

use super::Category;

/// The trait whose methods are calls.
#[derive(Clone, Copy, Debug)]
pub struct CallNames {
    /// Its full path.
    pub of: &'static str,
    /// Its methods that have a category; all others are calls of [`Category::Other`], whatever they
    /// call in turn.
    pub methods: &'static [(&'static str, Category)],
    /// What it means when a value is dropped whose type's path begins so.
    pub drops: Option<(&'static str, Category)>,
}

/// A method as a name shows it.
struct Method<'n> {
    /// The type that has it; unknown for a method with a body in the trait.
    of: Option<&'n str>,
    /// The trait, or the type itself.
    path: &'n str,
    name: &'n str,
}

/// The part of `name` before its last `<…>`, and what is inside, if `name` ends with one.
fn split_brackets(name: &str) -> Option<(&str, &str)> {
    let inside = name.strip_suffix('>')?;
    let mut depth = 1;
    for (at, byte) in inside.bytes().enumerate().rev() {
        match byte {
            // The arrow of a function's type closes nothing.
            b'>' if at == 0 || inside.as_bytes()[at - 1] != b'-' => depth += 1,
            b'<' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&name[..at], &inside[at + 1..]));
        }
    }
    None
}

impl<'n> Method<'n> {
    fn parse(name: &'n str) -> Option<Self> {
        // Arguments of the method itself: `::<…>`.
        let name = split_brackets(name).map_or(name, |(before, _)| before.trim_end_matches("::"));
        let (owner, name) = name.rsplit_once("::")?;
        let Some((_, inside)) = split_brackets(owner) else {
            return Some(Self { of: None, path: owner, name });
        };
        let (path, of) = match inside.strip_prefix("impl ") {
            Some(implementation) => implementation.split_once(" for ")?,
            None => inside.rsplit_once(" as ").map(|(of, path)| (path, of))?,
        };
        Some(Self { of: Some(of), path, name })
    }
}

impl CallNames {
    /// The category of the function called `name`, if it is a call.
    pub(super) fn category(&self, name: &str) -> Option<Category> {
        let method = Method::parse(name)?;
        if method.path == self.of {
            let category = self.methods.iter().find(|(known, _)| *known == method.name);
            return Some(category.map_or(Category::Other, |(_, category)| *category));
        }
        let (types, category) = self.drops?;
        let is_drop = method.path == "core::ops::drop::Drop" && method.name == "drop";
        (is_drop && method.of?.starts_with(types)).then_some(category)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: CallNames = CallNames {
        of: "storage::store::Store",
        methods: &[("lookup", Category::Lookup), ("insert_run", Category::Insert)],
        drops: Some(("storage::", Category::Pin)),
    };

    #[test]
    fn every_form_of_a_method_is_recognised() {
        let check = |name: &str, expect| assert_eq!(NAMES.category(name), expect, "{name}");
        let lookup = Some(Category::Lookup);
        check("<storage::memory::Memory<P> as storage::store::Store>::lookup", lookup);
        check(
            "<storage::memory::Memory<lab::P> as storage::store::Store>::lookup::<lab::Items>",
            lookup,
        );
        check(
            "storage::calls::<impl storage::store::Store for storage::memory::Memory<P>>::lookup",
            lookup,
        );
        check("<storage::F<fn(u8) -> u8> as storage::store::Store>::lookup", lookup);
        check("storage::store::Store::insert_run", Some(Category::Insert));
        check("<A as storage::store::Store>::remove", Some(Category::Other));
        check("<storage::Pin<L> as core::ops::drop::Drop>::drop", Some(Category::Pin));
    }

    #[test]
    fn other_functions_are_no_calls() {
        for name in [
            "lookup",
            "main",
            "storage::store::lookup",
            "<A as other::Store>::lookup",
            "<A as storage::store::Store>::lookup::{{closure}}",
            "<A as storage::store::Store>::lookup::{closure#0}",
            "lab::new_order::run::<<A as storage::store::Store>::lookup>",
            "<storage::memory::Memory<P>>::lookup",
            "<lab::Open<storage::Memory> as core::ops::drop::Drop>::drop",
            "core::ptr::drop_in_place::<storage::Pin>",
            ">::lookup",
            "",
        ] {
            assert_eq!(NAMES.category(name), None, "{name}");
        }
    }
}
