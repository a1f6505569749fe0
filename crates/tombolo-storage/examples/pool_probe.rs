//! Instructions of reaching pages and rows, counted by callgrind.
//!
//! ```text
//! cargo build --profile quick -p tombolo-storage --example pool_probe
//! valgrind --tool=callgrind --toggle-collect='*::work' target/quick/examples/pool_probe pool fix
//! ```
//!
//! The first argument is the way of reaching pages (`pool`, `pool-unlatched`, `direct`,
//! `direct-unlatched`, `pointers`), the second what is done [`REPEATS`] times: `fix`,
//! `fix-exclusive`, `read`, `pin`, `update`, `create`, or `none` for the loop alone. Divide the
//! total by [`REPEATS`].
//!
//! `misses N read`, `misses N change` reach random pages of a file twice as large as its pool of N frames, and
//! print how many of these were not in memory: instructions divided by these are the cost of a miss, in which a page
//! leaves that is clean, or changed and has to be written. What is collected is `*work_beyond_memory*`.

use std::hint::black_box;

use tombolo_storage::disk::MemDisk;
use tombolo_storage::latch::{Latched, Unlatched};
use tombolo_storage::paged::heap::{HeapFile, Place, RowFile, RowLayout, SlabRows, Stamp};
use tombolo_storage::paged::page::{LargePages, PageId, PageKind, SmallPages, StoreId};
use tombolo_storage::paged::pool::{
    BufferPool, DirectFrames, ExclusivePage, NoWriteAhead, PageAccess, PageError, Pointers,
};
use tombolo_storage::row::RowId;

const REPEATS: u32 = 100_000;
const ROW_BYTES: usize = 80;
const ROWS: usize = 2_000;
const LIMIT_BYTES: usize = 256 << 20;

type Probe = Result<(), PageError>;

fn fill(_: Place, row: &mut [u8]) -> Result<Stamp, PageError> {
    row[..ROW_BYTES].copy_from_slice(&[7; ROW_BYTES]);
    Ok(None)
}

#[inline(never)]
fn work<P: PageAccess>(access: &P, file: &impl RowFile<P>, rows: &[RowId], what: &str) -> Probe {
    let repeats = 0..REPEATS as usize;
    match what {
        "none" => repeats.for_each(|n| {
            black_box(rows[n % ROWS]);
        }),
        "fix" => {
            for n in repeats {
                black_box(access.fix_shared(PageId((n % 16) as u32 + 2))?);
            }
        }
        "fix-exclusive" => {
            for n in repeats {
                black_box(access.fix_exclusive(PageId((n % 16) as u32 + 2))?);
            }
        }
        "read" => {
            for n in repeats {
                black_box(file.read(access, rows[n % ROWS], |row| row[5])?);
            }
        }
        "pin" => {
            for n in repeats {
                black_box(file.pin(access, rows[n % ROWS])?.map(|row| row[5]));
            }
        }
        "update" => {
            for n in repeats {
                let change = |_: Place, row: &mut [u8]| -> Result<Stamp, PageError> {
                    row[5] = n as u8;
                    Ok(None)
                };
                black_box(file.update(access, rows[n % ROWS], change)?);
            }
        }
        _ => {
            for _ in repeats {
                black_box(file.create(access, 0, black_box(ROW_BYTES), fill, &())?);
            }
        }
    }
    Ok(())
}

fn probe<P: PageAccess, R: RowFile<P>>(access: &P, what: &str) -> Probe {
    // The first pages are taken, so that a fix finds some under every way of reaching them.
    for _ in 0..20 {
        access.new_page(StoreId(1), PageKind::Leaf)?;
    }
    let file = R::create_file(access, StoreId(2), RowLayout::fixed(ROW_BYTES))?;
    let rows: Result<Vec<RowId>, PageError> =
        (0..ROWS).map(|_| file.create(access, 0, ROW_BYTES, fill, &())).collect();
    work(access, &file, &rows?, what)
}

type Pool = BufferPool<SmallPages, Latched, NoWriteAhead>;

/// Reaches a random page each time: the fixes of pages that are not in memory are most of the work.
#[inline(never)]
fn work_beyond_memory(pool: &Pool, pages: u32, changes: bool) -> Probe {
    let mut state = 1_u64;
    for _ in 0..REPEATS {
        // Numbers that are random enough for replacement, in a few instructions.
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let id = PageId(1 + (((state >> 33) * u64::from(pages)) >> 31) as u32);
        if changes {
            black_box(pool.fix_exclusive(id)?.page_mut());
        } else {
            black_box(pool.fix_shared(id)?);
        }
    }
    Ok(())
}

fn misses(frames: usize, changes: bool) -> Probe {
    let pool = Pool::create(&MemDisk::new(), frames, NoWriteAhead)?;
    let pages = 2 * frames as u32;
    for _ in 0..pages {
        pool.new_page(StoreId(1), PageKind::Leaf)?;
    }
    // What is in memory now was changed by making it: it leaves before anything is counted.
    for page in 0..pages {
        pool.fix_shared(PageId(1 + page))?;
    }
    let before = pool.usage();
    work_beyond_memory(&pool, pages, changes)?;
    let after = pool.usage();
    println!(
        "{} misses, {} frames passed",
        after.misses - before.misses,
        after.passed - before.passed
    );
    Ok(())
}

fn main() -> Probe {
    let mut arguments = std::env::args().skip(1);
    let (way, what) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    if way == "misses" {
        let changes = arguments.next().is_some_and(|what| what == "change");
        return misses(what.parse().expect("a number of frames"), changes);
    }
    let (disk, frames) = (MemDisk::new(), 3_000);
    match way.as_str() {
        "pool" => probe::<_, HeapFile<_>>(
            &BufferPool::<SmallPages, Latched, _>::create(&disk, frames, NoWriteAhead)?,
            &what,
        ),
        "pool-unlatched" => probe::<_, HeapFile<_>>(
            &BufferPool::<SmallPages, Unlatched, _>::create(&disk, frames, NoWriteAhead)?,
            &what,
        ),
        "direct" => probe::<_, HeapFile<_>>(
            &DirectFrames::<LargePages, Latched>::create(&disk, LIMIT_BYTES)?,
            &what,
        ),
        "direct-unlatched" => probe::<_, HeapFile<_>>(
            &DirectFrames::<LargePages, Unlatched>::create(&disk, LIMIT_BYTES)?,
            &what,
        ),
        _ => probe::<_, SlabRows>(&Pointers::<LargePages>::new(LIMIT_BYTES)?, &what),
    }
}
