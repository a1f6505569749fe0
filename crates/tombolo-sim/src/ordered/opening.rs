//! Islands that are opened: each is recovered, what is not on all is cut off, and its opening is counted durably, as
//! the library does it (`islands/opening.rs`).
//!
//! Not here: image, log and store of one (`database/image.rs`), crashes meanwhile (`world.rs`).

use std::sync::Arc;

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::islands::membership::{
    Membership, count_opening, found, membership, membership_tables,
};
use tombolo_engine::islands::ordered::{OrderedRows, cut_off, last_ordered, ordered_table};
use tombolo_storage::disk::Disk;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::Store;
use tombolo_storage::value_log::archive::LogArchive;
use tombolo_storage::value_log::{GroupNumber, LogBuffer};

use super::requests::{Cells, Rows, cell_table};
use super::settings::Settings;
use crate::database::{OpenLog, Refused, archive, image};
use crate::faults::FaultyDisk;

/// Directories of an island: those of its image, and behind them that of its archive.
const DIRECTORIES: usize = archive::DIRECTORY + 1;

/// Where an island is.
pub(super) struct Place {
    pub(super) doors: Vec<Arc<dyn Disk>>,
    /// Where its log is archived, if it is.
    pub(super) archive: Option<FaultyDisk>,
}

impl Place {
    /// That of an island on the machine.
    pub(super) fn on(disk: &FaultyDisk, settings: &Settings, island: usize) -> Self {
        let directory = |number: usize| disk.directory(island * DIRECTORIES + number);
        let doors = (0..settings.database.directories)
            .map(|number| Arc::new(directory(number)) as Arc<dyn Disk>);
        let archive = archive::is_on(&settings.database).then(|| directory(archive::DIRECTORY));
        Self { doors: doors.collect(), archive }
    }
}

/// An island that was opened.
pub(super) struct Open {
    pub(super) log: OpenLog,
    pub(super) store: MemoryStore<MemoryLogged>,
    archive: Option<LogArchive>,
}

fn open(place: &Place, settings: &Settings, last: Option<GroupNumber>) -> Result<Open, Refused> {
    let database = &settings.database;
    let archive = match &place.archive {
        Some(directory) => archive::take(directory, database, false)?,
        None => None,
    };
    let keep = archive.as_ref().and_then(LogArchive::keep);
    let (log, store) = image::open_doors(&place.doors, database, false, (keep, last))?;
    Ok(Open { log, store, archive })
}

/// Opens all islands, and cuts off what is not on all. Counts the cuts.
pub(super) fn open_all(
    places: &[Place],
    settings: &Settings,
    cuts: &mut u64,
) -> Result<Vec<Open>, Refused> {
    let opened = places.iter().map(|place| open(place, settings, None));
    let mut opened = opened.collect::<Result<Vec<_>, _>>()?;
    let last = |island: &mut Open| {
        last_ordered(&mut island.store).map_err(|error| Refused::unsound(error.to_string()))
    };
    let without_newest = |at: usize, island: Open| {
        // The newest group begins this opening.
        let group = island.log.writer.newest().checked_sub(2);
        drop(island);
        *cuts += 1;
        group.map(|group| open(&places[at], settings, Some(group))).transpose()
    };
    match cut_off(&mut opened, last, without_newest)? {
        true => Ok(opened),
        false => {
            Err(Refused::unsound("an island is further ahead than a crash can leave it".into()))
        }
    }
}

/// The rows of each island.
pub(super) fn contents(opened: &mut [Open]) -> Result<Vec<Rows>, Refused> {
    let of = |island: &mut Open| match Cells::of(island.store.schema()) {
        Ok(cells) => cells.contents(&mut island.store).map_err(Refused::unsound),
        Err(_) => Ok(Rows::new()), // it has no table yet
    };
    opened.iter_mut().map(of).collect()
}

impl Open {
    /// Makes what an island needs that is not there yet, and counts the opening, durably.
    pub(super) fn make_ready(
        &mut self,
        place: &Place,
        me: (usize, usize),
        now_us: u64,
    ) -> Result<(), Refused> {
        let unsound = |error: &dyn std::fmt::Display| Refused::unsound(error.to_string());
        let tables = [cell_table()].into_iter().chain(membership_tables()).chain([ordered_table()]);
        let tables: Vec<TableDef> = tables.skip(self.store.schema().tables.len()).collect();
        for table in tables {
            self.store.create_table(table).map_err(|error| unsound(&error))?;
        }
        let store = &mut self.store;
        let (island, islands) = (IslandId(me.0 as u16), me.1 as u16);
        let mut ready = || {
            if membership(store)?.is_none() {
                let keys = "hash".to_owned();
                found(store, &Membership { database: 1, island, islands, keys })?;
            }
            OrderedRows::open(store, (island, islands))?;
            count_opening(store)
        };
        ready().map_err(|error| unsound(&error))?;
        let mut log = LogBuffer::new();
        self.store.take_log(&mut log);
        let writer = &mut self.log.writer;
        writer.set_time(now_us);
        let appended = writer.append_group(&[log.as_slice()], log.transactions(), None);
        let synced = appended.and_then(|_| writer.sync());
        synced.map_err(|failure| Refused::by_log(&failure))?;
        if let Some((archive, directory)) = self.archive.take().zip(place.archive.as_ref()) {
            self.log.archiver = Some(archive::attach(directory, archive, &self.log.writer)?);
        }
        Ok(())
    }
}
