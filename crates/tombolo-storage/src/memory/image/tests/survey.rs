//! What is reported about an image that is only looked at.

use super::*;
use crate::disk::{Disk, MemDisk, Open};

fn surveyed(disk: &MemDisk) -> ImageSurvey {
    let disk = Arc::new(disk.clone()) as Arc<dyn Disk>;
    let image = Image::find(vec![disk], image_settings(1)).unwrap();
    let mut read = 0;
    let survey = image.survey(&mut |bytes| read += bytes).unwrap().unwrap();
    assert_eq!(read, image.image_bytes());
    survey
}

#[test]
fn an_image_is_reported_by_ring_and_damage_is_found_without_loading() {
    let disk = MemDisk::new();
    let doors = [Arc::new(disk.clone()) as Arc<dyn Disk>];
    let none = Image::find(doors.to_vec(), image_settings(1)).unwrap();
    assert_eq!(none.survey(&mut |_| {}), Ok(None));
    let mut database = Database::open(&doors, 1, 2).unwrap();
    (0..3).for_each(|_| database.create_table());
    for _ in 0..3 {
        database.groups(&mut Random::new(4), 30);
        database.checkpoint().unwrap();
    }
    let live = rows(&mut database.store).len() as u64;
    let survey = surveyed(&disk);
    assert_eq!(survey.tables, ["one", "plain", "two"]);
    assert_eq!((survey.complete, survey.writing, &survey.damage[..]), (3, None, &[][..]));
    assert_eq!(survey.position, database.checkpoints.position());
    assert!(survey.known >= survey.position.group && survey.file.starts_with("checkpoint-"));
    let of_rows = survey.rings.iter().filter(|ring| !ring.is_values);
    assert_eq!(of_rows.map(|ring| ring.live).sum::<u64>(), live);
    assert!(survey.rings.iter().any(|ring| ring.is_values && ring.live > 0));
    assert!(survey.rings.iter().all(|ring| (ring.complete, ring.written) == (ring.blocks, 0)));
    // Some of the next one.
    database.begin().unwrap();
    (0..2).for_each(|_| assert!(!database.step(0).unwrap())); // prepared, then written
    let survey = surveyed(&disk);
    assert_eq!(survey.writing, Some(4));
    assert_eq!(survey.rings.iter().map(|ring| ring.written).sum::<u32>(), 1);
    drop(database);
    // All places of one ring, and a ring that is gone: both are reported, and the others as before.
    let [first, second] = [0, 1].map(|at| survey.rings[at].file.clone());
    let file = disk.open(&first, Open::Write).unwrap();
    file.write_at(&vec![0; file.len().unwrap() as usize], 0).unwrap();
    disk.remove(&second).unwrap();
    let disk = Arc::new(disk) as Arc<dyn Disk>;
    let image = Image::find(vec![disk], image_settings(1)).unwrap();
    let damaged = image.survey(&mut |_| {}).unwrap().unwrap();
    let file = |damage: &ImageFailure| match damage {
        ImageFailure::Damaged { file, .. } => file.clone(),
        other => panic!("{other:?}"),
    };
    let files: Vec<_> = damaged.damage.iter().map(file).collect();
    assert_eq!(files, [first, second]);
    assert_eq!(damaged.rings[1..], survey.rings[2..]);
}
