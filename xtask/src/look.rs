//! `cargo xtask look PAGE`: renders a page in a real browser, in light, in dark, and on a phone.
//!
//! Three pictures are written next to the page for a person to look at, because no test can judge whether a chart is
//! legible. It is not part of `ci`; the lab's tests verify the page's form (well formed, loads nothing).

use crate::failure::Failure;
use crate::invocation::Invocation;
use std::path::{Path, PathBuf};

/// Names of Chromium's program, in the order in which they are tried.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// The height of the rendered part of a page, in pixels.
const HEIGHT: u32 = 12_000;
/// The width of a common phone, in pixels of the style sheet.
const PHONE: u32 = 390;

/// Writes `PAGE-light.png`, `PAGE-dark.png` and `PAGE-phone.png`.
pub(crate) fn run(root: &Path, page: &str) -> Result<(), Failure> {
    let page = root.join(page);
    let page = page
        .canonicalize()
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", page.display())))?;
    let browser =
        BROWSERS.into_iter().find(|name| crate::needs::on_path(name)).ok_or_else(|| {
            Failure::machine(
                "no browser; run `apt-get install -y --no-install-recommends chromium`",
            )
        })?;
    // A browser's window may not get as narrow as a phone; a frame does.
    let frame = sibling(&page, "phone.html");
    std::fs::write(&frame, framed(&page)).map_err(|error| {
        Failure::machine(format!("{} cannot be written: {error}", frame.display()))
    })?;
    let shots =
        [(&page, "light.png", false), (&page, "dark.png", true), (&frame, "phone.png", false)];
    let taken = shots.iter().try_for_each(|(shown, name, dark)| {
        let width = if *name == "phone.png" { PHONE } else { 1_000 };
        let picture = sibling(&page, name);
        let call = shot(browser, shown, &picture, width, *dark);
        eprintln!("xtask: {call}");
        call.succeed(root)?;
        if !picture.is_file() {
            return Err(Failure::check(format!("no picture was taken; run it alone: {call}")));
        }
        println!("{}", picture.display());
        Ok(())
    });
    let removed = std::fs::remove_file(&frame);
    taken?;
    removed.map_err(|error| Failure::machine(format!("{}: {error}", frame.display())))
}

/// `report.html` → `report-NAME`.
fn sibling(page: &Path, name: &str) -> PathBuf {
    let stem = page.file_stem().unwrap_or_default().to_string_lossy();
    page.with_file_name(format!("{stem}-{name}"))
}

fn framed(page: &Path) -> String {
    let name = page.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "<!DOCTYPE html><body style=\"margin:0\"><iframe src=\"{name}\" \
         style=\"border:0;width:{PHONE}px;height:{}px\"></iframe></body>",
        2 * HEIGHT
    )
}

fn shot(browser: &str, page: &Path, picture: &Path, width: u32, dark: bool) -> Invocation {
    let height = if width == PHONE { 2 * HEIGHT } else { HEIGHT };
    let flags = ["--headless=new", "--disable-gpu", "--hide-scrollbars", "--log-level=3"];
    // Chromium refuses to run as root inside its sandbox; the page is our own.
    let no_sandbox = crate::needs::is_root().then(|| "--no-sandbox".to_string());
    Invocation::new(browser, &flags)
        .with(no_sandbox)
        .with(dark.then(|| "--blink-settings=preferredColorScheme=0".to_string()))
        .with([format!("--window-size={width},{height}")])
        .with([format!("--screenshot={}", picture.display())])
        .with([format!("file://{}", page.display())])
}

#[cfg(test)]
mod tests {
    use super::{framed, run, shot, sibling};
    use std::path::Path;

    #[test]
    fn pictures_stand_beside_the_page() {
        let page = Path::new("/a/report.html");
        assert_eq!(sibling(page, "dark.png"), Path::new("/a/report-dark.png"));
        assert!(framed(page).contains("src=\"report.html\"") && framed(page).contains("390px"));
        let call = shot("chromium", page, Path::new("/a/p.png"), 390, true).to_string();
        assert!(call.contains("preferredColorScheme=0 --window-size=390,24000"), "{call}");
        assert!(call.ends_with("--screenshot=/a/p.png file:///a/report.html"), "{call}");
    }

    #[test]
    fn a_page_that_is_not_there_is_bad_usage() {
        assert_eq!(run(Path::new("/"), "no-such-page.html").unwrap_err().status(), 2);
    }
}
