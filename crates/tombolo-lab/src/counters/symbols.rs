//! The counted program's debug information: which functions an address is in, inlined ones
//! included.
//!
//! It is read from the program's own file, whose addresses callgrind reports too. A file without
//! it, or in which no call is found, is an error that says how to build one: counts in which all is
//! *other* would look right and mean nothing.
//!
//! Not here: what a name means (`names.rs`), what an address costs (`attribution.rs`).

use std::collections::BTreeMap;
use std::path::Path;

use addr2line::gimli::{self, EndianSlice, RunTimeEndian};
use object::{Object, ObjectSection};

use super::attribution::{Place, Places};
use super::names::CallNames;
use super::{Category, CounterError};

type Reader<'f> = EndianSlice<'f, RunTimeEndian>;

/// An error if the program in the file at `path`, which holds `bytes`, has no debug information.
pub(super) fn verify_debug_information(path: &Path, bytes: &[u8]) -> Result<(), CounterError> {
    let file = object::File::parse(bytes).ok();
    let section = file.as_ref().and_then(|file| file.section_by_name(".debug_info"));
    match section {
        Some(section) if section.size() > 0 => Ok(()),
        _ => Err(CounterError::NoDebugInformation(path.display().to_string())),
    }
}

/// The calls in one program's file.
pub(super) struct Symbols<'f> {
    /// The file's path, as callgrind gives it.
    path: &'f str,
    names: CallNames,
    context: addr2line::Context<Reader<'f>>,
    /// The places found so far, by address.
    places: BTreeMap<u64, Place>,
    /// The same by linkage name.
    categories: BTreeMap<&'f [u8], Option<Category>>,
}

impl<'f> Symbols<'f> {
    /// The symbols of the program in the file at `path`, which holds `bytes`.
    pub(super) fn new(
        path: &'f Path,
        bytes: &'f [u8],
        names: CallNames,
    ) -> Result<Self, CounterError> {
        let unusable = || CounterError::NoDebugInformation(path.display().to_string());
        let file = object::File::parse(bytes).map_err(|_| unusable())?;
        let endian =
            if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let section = |id: gimli::SectionId| {
            let data = file.section_by_name(id.name()).and_then(|section| section.data().ok());
            Ok::<_, gimli::Error>(EndianSlice::new(data.unwrap_or_default(), endian))
        };
        let dwarf = gimli::Dwarf::load(section).map_err(|_| unusable())?;
        let context = addr2line::Context::from_dwarf(dwarf).map_err(|_| unusable())?;
        let path = path.to_str().ok_or_else(unusable)?;
        let (places, categories) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { path, names, context, places, categories })
    }

    /// An error if no call was met in all that was asked for.
    pub(super) fn verify_calls_were_found(&self) -> Result<(), CounterError> {
        if self.categories.values().any(Option::is_some) {
            return Ok(());
        }
        Err(CounterError::NoDebugInformation(self.path.to_owned()))
    }

    fn look_up(&mut self, address: u64) -> Result<Place, gimli::Error> {
        let mut frames = self.context.find_frames(address).skip_all_loads()?;
        let mut place = Place::default();
        // From the innermost to the machine function itself.
        while let Some(frame) = frames.next()? {
            place.function = None;
            let Some(function) = frame.function else { continue };
            let names = &self.names;
            let category = match self.categories.get(function.name.slice()) {
                Some(known) => *known,
                None => {
                    let category = names.category(&function.demangle()?);
                    self.categories.insert(function.name.slice(), category);
                    category
                }
            };
            place.function = category;
            place.outermost = category.or(place.outermost);
        }
        Ok(place)
    }
}

impl Places for Symbols<'_> {
    fn place(&mut self, object: &str, address: u64) -> Result<Place, CounterError> {
        if object != self.path {
            return Ok(Place::default());
        }
        if let Some(place) = self.places.get(&address) {
            return Ok(*place);
        }
        let place = self.look_up(address).map_err(|error| {
            let path = self.path;
            CounterError::Damaged(format!("{path}: debug information at {address:#x}: {error}"))
        })?;
        self.places.insert(address, place);
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    trait Speaks {
        fn speak(&self) -> usize;
    }

    struct Dog(usize);

    impl Speaks for Dog {
        #[inline(never)]
        fn speak(&self) -> usize {
            std::hint::black_box(self.0) + 1
        }
    }

    const NAMES: CallNames = CallNames {
        of: "tombolo_lab::counters::symbols::tests::Speaks",
        methods: &[("speak", Category::Update)],
        drops: None,
    };

    /// Where this test's own file has the function.
    fn address(file: &object::File<'_>, part: &str) -> u64 {
        use object::ObjectSymbol;
        let mut found = file.symbols().filter(|s| s.name().is_ok_and(|name| name.contains(part)));
        found.next().map(|symbol| symbol.address()).unwrap()
    }

    #[test]
    fn calls_are_found_in_this_very_program() {
        assert_eq!(Dog(1).speak(), 2);
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&bytes[..]).unwrap();
        let speak = address(&file, "Speaks");
        let mut symbols = Symbols::new(&path, &bytes, NAMES).unwrap();
        let message = symbols.verify_calls_were_found().unwrap_err().to_string();
        assert!(message.contains("release profile"), "{message}");
        let object = path.to_str().unwrap();
        let update = Some(Category::Update);
        let place = symbols.place(object, speak).unwrap();
        assert_eq!(place, Place { function: update, outermost: update });
        assert!(symbols.verify_calls_were_found().is_ok());
        let main = address(&file, "main");
        assert_eq!(symbols.place(object, main).unwrap(), Place::default());
        assert_eq!(symbols.place("/lib/libc.so.6", speak).unwrap(), Place::default());
    }

    #[test]
    fn a_file_that_is_no_program_is_refused() {
        let path = Path::new("/tmp/text");
        let refused = "/tmp/text has no debug information";
        let error = Symbols::new(path, b"just some text", NAMES).err().unwrap().to_string();
        assert!(error.starts_with(refused), "{error}");
        let error = verify_debug_information(path, b"just some text").unwrap_err().to_string();
        assert!(error.starts_with(refused), "{error}");
        let this = std::env::current_exe().unwrap();
        assert!(verify_debug_information(&this, &std::fs::read(&this).unwrap()).is_ok());
    }
}
