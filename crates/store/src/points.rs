//! The named code points of the store: each branch of restart.

entresol_runtime::coverage_points! {
    LOG_LEFTOVER = "restart: the log ends before leftovers of an older life";
    LOG_UNREADABLE = "log: a sector is unreadable";
    LOG_HOLE = "restart: a hole in the log is refused";
    LOG_GROWS = "restart: the log moves into a larger area";
    MASTER_UNREADABLE = "restart: a block of the master record is unreadable";
    MASTER_WRITTEN_AGAIN = "log: a master record that was lost is written again";
    SESSION_UNFINISHED = "restart: the open before was cut off between log and disk";
    PAGE_BEYOND_LOG = "a page from beyond the log's end is refused";
    NOTE_SKIPS = "redo: a change is in a durable version";
    NOTE_DISTRUSTED = "redo: begins again without a note that does not hold";
    NOTE_LOST = "redo: the flash has lost what a note calls durable";
    IMAGE_PREFERRED = "redo: an image in the log is preferred to a page on disk";
    FLASH_LOST = "restart: without the flash, from the horizon";
    CHECKPOINT_ADOPTED = "restart: a checkpoint that the master record does not name counts";
    CHANGE_REPEATED = "redo: a change is repeated";
    CHANGE_THERE = "redo: the page has the change";
    MATERIALISED = "restart: dirty pages that a shutdown left on flash are there, no checkpoint is made";
    LOSER_UNDONE = "undo: a change of a loser is undone";
    COMPENSATED = "undo: what is compensated is passed over";
}
