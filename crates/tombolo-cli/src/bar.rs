//! The progress bar: shown on a terminal, on standard error, and removed when its stage ends.
//!
//! Without a terminal nothing is shown; see the lab's `progress.rs` for the reason.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tombolo_lab::progress::Progress;

/// Steps of a stage.
const STEPS: u64 = 1_000;

/// The bar of the current stage.
#[derive(Debug, Default)]
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
}

impl Progress for Bar {
    fn begin(&mut self, what: &str) {
        if !io::stderr().is_terminal() {
            return;
        }
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("  {prefix:<34} {bar:32.cyan} {percent:>3} %  {msg}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        bar.set_prefix(what.to_owned());
        bar.tick();
        self.bar = Some(bar);
    }

    fn part(&mut self, part: f64, detail: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position((part.clamp(0.0, 1.0) * STEPS as f64) as u64);
            bar.set_message(detail.to_owned());
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
