//! Invariants of staging.

use crate::staging::{FrameState, Staging};
use crate::violation::{Violation, same};

/// The window and its frames, on which every position in it relies.
pub(super) fn check(staging: &Staging<'_>) -> Result<(), Violation> {
    let window = &*staging.window;
    same(|| "staged front <= rear", true, window.front <= window.rear)?;
    same(|| "staging window", true, window.rear - window.front <= staging.pages())?;
    same(|| "staging frames in the window", window.rear - window.front, window.used as u64)?;
    let (front, group) = (window.front % staging.pages(), window.rear % staging.group_pages as u64);
    same(|| "frame of the staging front", front, window.front_frame as u64)?;
    same(|| "pages of the open group", group, window.open as u64)?;
    for position in staging.positions() {
        let frame = staging.at(position);
        same(|| format!("position of the staging frame for {position}"), position, frame.position.0)?;
        let used = frame.state().is_some_and(|state| state != FrameState::Free);
        same(|| format!("the staging frame for {position} is used, in a known state"), true, used)?;
    }
    let used = staging.frames.iter().filter(|frame| !frame.is(FrameState::Free)).count();
    same(|| "staging frames in use", used, window.used as usize)
}
